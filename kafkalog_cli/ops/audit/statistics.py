"""Collect statistics of a log while it is verified, on whole columns: batches, records, codecs, times."""

from __future__ import annotations

from typing import NamedTuple

from kafkalog_cli.format.batch import CODEC_MASK, CONTROL_MASK, NO_TIMESTAMP, BatchColumns
from kafkalog_cli.format.columns import Flags, Integers
from kafkalog_cli.format.compression import codec_name
from kafkalog_cli.format.records import OUTSIDE, RecordBlock
from kafkalog_cli.ops.audit.keys import KeyStatistics, StoredKeys


class CodecCounts(NamedTuple):
    """The batches with one codec; `bytes` is their total size in the log."""

    codec: str
    batches: int
    bytes: int


class LogStatistics:
    """A BatchListener of one partition; it counts batches whose CRCs are right or were not checked.

    `keys` receives the records that were read. `record_count` is the number of readable records, without control
    records. If no records are read, it is the number in the headers, or None if a header has no number (a compressed v0
    or v1 message set). `max_timestamp` is the largest in a header, in ms, None if there is none.
    """

    def __init__(self, keys: KeyStatistics | None = None) -> None:
        self.wants_records = keys is not None
        self._keys = keys
        self.batch_count = 0
        self.max_timestamp: int | None = None
        self._codecs: dict[int, list[int]] = {}
        self._told, self._told_control, self._is_told = 0, 0, True
        self._read, self._read_control, self._has_read = 0, 0, False

    @property
    def record_count(self) -> int | None:
        """The number of records without control records, None if unknown."""
        if self._has_read:
            return self._read
        return self._told if self._is_told else None

    @property
    def control_record_count(self) -> int:
        """The number of control records."""
        return self._read_control if self._has_read else self._told_control

    @property
    def codecs(self) -> tuple[CodecCounts, ...]:
        """The counts per codec, by the codec's number."""
        found = sorted(self._codecs.items())
        return tuple(CodecCounts(codec_name(codec) or str(codec), *counts) for codec, counts in found)

    def batches(self, batches: BatchColumns) -> None:
        """See BatchListener."""
        import numpy as np

        names = ("valid", "attributes", "size_bytes", "max_timestamp", "records_count")
        valid, attributes, sizes, times, counts = (_column(batches, name) for name in names)
        rows = np.flatnonzero(valid)
        attributes, sizes, times, counts = attributes[rows], sizes[rows], times[rows], counts[rows]
        if not len(rows):
            return
        self.batch_count += len(rows)
        codecs = attributes & CODEC_MASK
        for codec in np.unique(codecs).tolist():
            of_codec = codecs == codec
            known = self._codecs.setdefault(codec, [0, 0])
            known[0] += int(of_codec.sum())
            known[1] += int(sizes[of_codec].sum())
        largest = int(times.max())
        if largest != NO_TIMESTAMP:
            self.max_timestamp = largest if self.max_timestamp is None else max(largest, self.max_timestamp)
        control = _is_control(batches)[rows]
        self._is_told &= bool((counts >= 0).all())
        self._told += int(counts[~control].sum())
        self._told_control += int(counts[control].sum())

    def records(self, block: RecordBlock) -> None:
        """See BatchListener."""
        import numpy as np

        self._has_read = True
        ends = np.asarray(block.record_ends, dtype=np.int64)
        counts = ends - np.concatenate((np.zeros(1, dtype=np.int64), ends[:-1]))
        control = _is_control(block.batches)[block.first_row : block.end_row]
        self._read += int(counts[~control].sum())
        self._read_control += int(counts[control].sum())
        if self._keys is not None and len(block.records):
            self._look_at_keys(self._keys, block, None if not control.any() else np.repeat(~control, counts))

    @staticmethod
    def _look_at_keys(keys: KeyStatistics, block: RecordBlock, wanted: Flags | None) -> None:
        import numpy as np

        records = block.records
        columns = (records.key_position, records.key_size, records.value_size)
        positions, key_sizes, value_sizes = (np.asarray(column, dtype=np.int64) for column in columns)
        if wanted is not None:
            positions, key_sizes, value_sizes = positions[wanted], key_sizes[wanted], value_sizes[wanted]
        known = key_sizes >= 0
        null_keys = len(known) - int(known.sum())
        positions, key_sizes, value_sizes = positions[known], key_sizes[known], value_sizes[known]
        if not len(key_sizes):
            keys.add_stored(None, value_sizes, null_keys)
            return
        key_sizes = np.where(positions == OUTSIDE, 0, key_sizes)
        keys.add_stored(stored_keys(block.buffer, positions, key_sizes), value_sizes, null_keys)


def _column(batches: BatchColumns, name: str) -> Integers:
    import numpy as np

    return np.asarray(getattr(batches, name), dtype=np.int64)


def _is_control(batches: BatchColumns) -> Flags:
    is_control: Flags = (_column(batches, "attributes") & CONTROL_MASK != 0) & (_column(batches, "magic") >= 2)
    return is_control


def stored_keys(buffer: memoryview, positions: Integers, sizes: Integers) -> StoredKeys:
    """Return a copy of the keys at these positions of a buffer."""
    import numpy as np

    begins = np.cumsum(sizes) - sizes
    places = zip(positions.tolist(), sizes.tolist(), strict=True)
    data = b"".join([buffer[at : at + size] for at, size in places])
    return StoredKeys(np.frombuffer(data, dtype=np.uint8), begins, sizes)


def control_rows(block: RecordBlock) -> Flags | None:
    """Return for each record of a block whether it is a control record; None if none is."""
    import numpy as np

    control = _is_control(block.batches)[block.first_row : block.end_row]
    if not control.any():
        return None
    ends = np.asarray(block.record_ends, dtype=np.int64)
    return np.repeat(control, np.diff(ends, prepend=0))

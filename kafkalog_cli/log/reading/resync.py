"""Find the next good batch after damage."""

from kafkalog_cli.disk.fs import Filesystem, ReadableFile
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format.batch import CODEC_MASK, MESSAGE_V0, NO_OFFSET, RECORD_BATCH
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.format.native import SEARCH_DONE, SEARCH_FREE, BatchSearch
from kafkalog_cli.log.partition import MAX_SEGMENT_BYTES
from kafkalog_cli.log.reading.readable import DEVICE_BLOCK_BYTES, read_readable

_FIRST_READ_BYTES = 16 << 10
_READ_BYTES = 256 << 10
_MOST_CANDIDATES = 1 << 17


def is_overtaken(  # noqa: PLR0913
    fs: Filesystem, path: str, size_bytes: int, position: int, limits: Limits = DEFAULT_LIMITS, *, is_v07: bool = False
) -> bool:
    """Whether a broker has truncated the log since it was read, so that the damage at byte `position` is gone.

    `size_bytes` is the file's size when it was read. A smaller file was truncated; in a file that has grown, there is
    now a good batch at `position`. A missing file is not evidence of truncation.

    A smaller file counts as truncated wherever `position` is, because batches written after the truncation may have
    other borders. Damage in a log that shrinks while it is read is a warning; `verify` checks again and decides.
    """
    status = fs.status(path)
    if status is None or status.size_bytes == size_bytes:
        return False
    try:
        with fs.open_read(path) as file:
            is_smaller = file.size_bytes < size_bytes
            return is_smaller or next_good_batch(file, position, limits, is_v07=is_v07) == position
    except (KafkalogError, OSError):
        return False


def next_good_batch(  # noqa: PLR0913
    file: ReadableFile,
    position: int,
    limits: Limits = DEFAULT_LIMITS,
    *,
    is_v07: bool = False,
    broken_at: int | None = None,
    end: int = MAX_SEGMENT_BYTES,
) -> int | None:
    """Return the position of the first batch at or after byte `position` with a right CRC; None if there is none.

    The time is linear in the file's size, whatever its bytes are. The search ends at the largest size of a segment: a
    larger file may be a hole of any size, and no broker reads it. Ranges that the device cannot read are skipped.
    `broken_at`: the start of the damaged entry; if it is a compressed set, its messages are not found. `end`: the end
    of the bytes that are searched for a header.
    """
    end = min(file.size_bytes, MAX_SEGMENT_BYTES, end)
    last_offset, is_compressed = (NO_OFFSET, False) if broken_at is None else _enclosing(file, broken_at, is_v07=is_v07)
    search = BatchSearch(
        position, _MOST_CANDIDATES, is_v07=is_v07, is_in_compressed=is_compressed, last_offset=last_offset,
        largest=limits.max_batch_bytes, header_end=end, file_end=file.size_bytes,
    )  # fmt: skip
    state, read_bytes = SEARCH_FREE, _FIRST_READ_BYTES
    while state != SEARCH_DONE and (left := file.size_bytes - search.position) > 0:
        begin, view = search.position, memoryview(bytearray(min(read_bytes, left)))
        got, fault = read_readable(file, begin, view)
        state = search.add(view[:got], is_last=got < len(view) or got == left)
        if fault is not None and state == SEARCH_DONE and search.found is None:
            search.skip_to(fault.position + (fault.size_bytes or DEVICE_BLOCK_BYTES))
            state = SEARCH_FREE
        elif state == SEARCH_FREE:  # a header may begin with zeros
            search.skip_to(max(search.position, file.data_from(search.position) - RECORD_BATCH.size))
        read_bytes = _READ_BYTES
    return search.found


def _enclosing(file: ReadableFile, position: int, *, is_v07: bool) -> tuple[int, bool]:
    """Return which messages could be contents of the damaged entry at `position`, if little of it was compressible.

    If it is a set of v0 or v1: those with offsets up to its own, which is returned, -1 for none. 0.7 has no offsets:
    after a compressed message, only compressed messages are the log's.
    """
    header = bytearray(MESSAGE_V0.offset["key_length"])
    got, _ = read_readable(file, position, memoryview(header))
    if got < len(header):
        return NO_OFFSET, False
    if is_v07:
        return NO_OFFSET, header[4] == 1 and header[5] in (1, 2)
    magic, codec = header[MESSAGE_V0.offset["magic"]], header[MESSAGE_V0.offset["attributes"]] & CODEC_MASK
    is_set = magic <= 1 and codec in (1, 2, 3)
    return int.from_bytes(header[:8], "big", signed=True) if is_set else NO_OFFSET, False

"""Merge the rows of several files by offset: one file after the other, or several at once where they overlap."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from kafkalog_cli.errors import BadInput
from kafkalog_cli.ops.importing.inputs import InputFile, batches, offset_range


def in_offset_order(files: Sequence[InputFile], columns: Collection[str]) -> Iterator[Any]:
    """Yield RecordBatches of these columns, which include the offset, in the order of offsets. Raises BadInput.

    Within each file, rows must be in that order if its offsets overlap with another file's. Memory holds one batch of
    each overlapping file.
    """
    ranges = [(found, file) for file in files if (found := offset_range(file)) is not None]
    ranges.sort(key=lambda one: one[0])
    group: list[InputFile] = []
    last = -1
    for (first, end), file in ranges:
        if group and first > last:
            yield from _merged(group, columns)
            group = []
        group.append(file)
        last = max(last, end)
    yield from _merged(group, columns)


def _merged(files: Sequence[InputFile], columns: Collection[str]) -> Iterator[Any]:
    if len(files) == 1:
        yield from batches(files[0], columns)
        return
    heads = [_Head(file.path, batches(file, columns)) for file in files]
    heads = [head for head in heads if head.has_rows]
    for head in heads:
        if not head.schema.equals(heads[0].schema):
            reason = f"its offsets overlap with those of {heads[0].path}: give both the same columns of the same types"
            raise BadInput(path=head.path, reason=reason)
    while heads := [head for head in heads if head.has_rows]:
        bound = min(head.last for head in heads)
        yield _sorted([head.taken(bound) for head in heads])


class _Head:
    """The next rows of a file."""

    def __init__(self, path: str, parts: Iterator[Any]) -> None:
        self.path = path
        self._parts = parts
        self._seen = -1
        self._next()

    def _next(self) -> None:
        self._part = next((part for part in self._parts if part.num_rows), None)
        if self._part is None:
            return
        self._offsets = self._part.column("offset").to_numpy(zero_copy_only=False)
        if int(self._offsets[0]) < self._seen or (self._offsets[1:] < self._offsets[:-1]).any():
            reason = "its offsets do not ascend, and another file has some between them: sort it by the column offset"
            raise BadInput(path=self.path, reason=reason)
        self._seen = int(self._offsets[-1])

    @property
    def schema(self) -> Any:
        """The columns of the current batch."""
        assert self._part is not None
        return self._part.schema

    @property
    def has_rows(self) -> bool:
        """Whether there are more rows."""
        return self._part is not None

    @property
    def last(self) -> int:
        """The last offset of the current batch."""
        assert self._offsets is not None
        return int(self._offsets[-1])

    def taken(self, bound: int) -> Any:
        """Remove and return the rows of the current batch up to the offset `bound`."""
        import numpy as np

        assert self._part is not None
        assert self._offsets is not None
        count = int(np.searchsorted(self._offsets, bound, side="right"))
        found, self._part = self._part.slice(0, count), self._part.slice(count)
        self._offsets = self._offsets[count:]
        if not self._part.num_rows:
            self._next()
        return found


def _sorted(parts: list[Any]) -> Any:
    """Return the rows as one batch in the order of offsets; of equal offsets, the earlier file's row is first."""
    import pyarrow as pa

    table = pa.Table.from_batches([part for part in parts if part.num_rows]).combine_chunks()
    order = table.column("offset").to_numpy().argsort(kind="stable")
    return table.take(pa.array(order)).combine_chunks().to_batches()[0]

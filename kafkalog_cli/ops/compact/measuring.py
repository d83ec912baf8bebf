"""Cleans a log without writing: how much space the new segments would take."""

from __future__ import annotations

from types import TracebackType
from typing import NamedTuple

from kafkalog_cli.disk.fs import WritableFile, WritableFilesystem
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.ops.compact.passes import Passes, log_of
from kafkalog_cli.ops.compact.plan import CompactPlan, CompactRequest


class MeasuredGroup(NamedTuple):
    """Segments that a cleaning replaces, by base offsets, and the sizes of the files that replace them."""

    sources: tuple[int, ...]
    base_offsets: tuple[int, ...]
    file_bytes: tuple[int, ...]


def measured(fs: WritableFilesystem, plan: CompactPlan, request: CompactRequest) -> list[MeasuredGroup]:
    """Return what the plan's cleaning would write. It reads the log as a cleaning does, and writes nothing.

    Raises Damaged, and the exceptions of opening the files.
    """
    if not plan.choice.is_cleaned:
        return []
    partition = open_partition(fs, plan.path)
    passes = Passes(log_of(fs, partition, request), plan, request)
    passes.mark()
    files = _MeasuredFiles()
    groups = passes.cleaned_into(files)
    bases = [segment.base_offset for segment in partition.segments]
    return [
        MeasuredGroup(
            tuple(bases[at] for at in group.sources),
            tuple(segment.base_offset for segment in group.segments),
            tuple(files.sizes[name] for segment in group.segments for name in segment.names),
        )
        for group in groups
    ]


class _MeasuredFiles:
    """A FileMaker that keeps the size of each file and none of its bytes."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}

    def create(self, name: str, mtime_ms: int | None) -> WritableFile:
        return _MeasuredFile(name)

    def finish(self, file: WritableFile) -> None:
        assert isinstance(file, _MeasuredFile)
        self.sizes[file.path] = file.size_bytes


class _MeasuredFile:
    """A WritableFile without bytes."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.size_bytes = 0

    def write(self, position: int, data: bytes | memoryview) -> None:
        self.size_bytes = max(self.size_bytes, position + len(data))

    def truncate(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes

    def sync(self) -> None: ...

    def close(self) -> None: ...

    def __enter__(self) -> WritableFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

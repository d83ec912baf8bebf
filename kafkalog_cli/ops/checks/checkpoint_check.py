"""Checks offset checkpoints against the partitions that they name, and reads the small metadata files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict

from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import ExitCode, KafkalogError
from kafkalog_cli.format import clean_shutdown, meta_properties, partition_metadata, quorum_state
from kafkalog_cli.format.checkpoint import PartitionOffset
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.log.segments.log_end import LogBounds
from kafkalog_cli.ops.checks.file_report import Entry, FileNote, Verdict, fault_note

RangeOf = Callable[[str, int], LogBounds | None]
"""Returns the log range of a topic's partition, None if it has no directory or no segment."""

_BEYOND = {
    FileKind.RECOVERY_POINT_CHECKPOINT: "a broker recovers from the end on",
    FileKind.REPLICATION_CHECKPOINT: "records that were replicated are lost",
    FileKind.LOG_START_CHECKPOINT: "a broker deletes every segment",
    FileKind.CLEANER_CHECKPOINT: "a cleaner starts again at the log start",
}

_ACCEPTED_BY_BROKERS = ("cluster.id is not one that Kafka generates", "directory.id is reserved")


def check_offsets(entries: Iterable[PartitionOffset], kind: FileKind, range_of: RangeOf) -> Iterator[Entry]:
    """Check each line of one of the four offset checkpoints against its partition's first and end offset."""
    seen: set[tuple[str, int]] = set()
    for number, entry in enumerate(entries):
        name = (entry.topic, entry.partition)
        if name in seen:
            yield Entry(number, entry._asdict(), Verdict.STALE, "a second line about the partition: a broker takes it")
            continue
        seen.add(name)
        try:
            verdict, detail = _checkpoint_offset(entry.offset, kind, range_of(*name))
        except KafkalogError as error:
            verdict, detail = Verdict.UNVERIFIED, str(error)
        yield Entry(number, entry._asdict(), verdict, detail, is_tolerable=False)


def _checkpoint_offset(offset: int, kind: FileKind, log: LogBounds | None) -> tuple[Verdict, str]:
    if offset < 0:
        return Verdict.OUT_OF_ORDER, "negative"
    if log is None:
        return Verdict.NO_DIRECTORY, ""
    if offset > log.end:
        return Verdict.BEYOND_END, f"the log ends at {log.end}: {_BEYOND[kind]}"
    if offset < log.start:
        return Verdict.RIGHT, f"below the first segment: a broker uses {log.start}"
    return Verdict.RIGHT, ""


def read_metadata_file(kind: FileKind, data: bytes) -> tuple[list[Entry], list[FileNote]]:
    """Read `meta.properties`, `partition.metadata`, `.kafka_cleanshutdown` or `quorum-state`: its fields and faults."""
    fields: dict[str, object] | None = None
    faults: list[Fault]
    notes: list[FileNote] = []
    code = ExitCode.CORRUPTION
    if kind is FileKind.META_PROPERTIES:
        meta, faults = meta_properties.decode(data)
        fields = None if meta is None else asdict(meta)
    elif kind is FileKind.PARTITION_METADATA:
        partition, faults = partition_metadata.decode(data)
        fields = None if partition is None else partition._asdict()
    elif kind is FileKind.QUORUM_STATE:
        state, faults = quorum_state.decode(data)
        fields = None if state is None else asdict(state)
    else:
        code = ExitCode.WARNINGS  # a broker still starts as after a clean shutdown
        shutdown, faults = clean_shutdown.decode(data)
        fields = None if shutdown is None else shutdown._asdict()
        if not data:
            notes.append(FileNote("empty, as brokers up to 3.6 wrote it"))
    for fault in faults:
        accepted = fault.message in _ACCEPTED_BY_BROKERS
        notes.append(fault_note(kind, fault, ExitCode.WARNINGS if accepted else code))
    return [] if fields is None else [Entry(0, fields, Verdict.RIGHT)], notes

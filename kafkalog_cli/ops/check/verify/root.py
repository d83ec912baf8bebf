"""Checks of the root of a log directory: its small files, what prevents a broker's start, and checkpoint lines."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress

from kafkalog_cli.disk.fs import Filesystem, read_all
from kafkalog_cli.disk.names import DirectoryKind, FileKind, WorkState, classify_directory, classify_file
from kafkalog_cli.errors import KafkalogError, counted
from kafkalog_cli.format import checkpoint
from kafkalog_cli.format.checkpoint import BrokerReading, broker_reading
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.log.log_dir import OFFSET_CHECKPOINTS, Shutdown
from kafkalog_cli.log.log_end import LogBounds
from kafkalog_cli.log.partition import Partition, UnusableFile
from kafkalog_cli.log.settings.source import SettingsSource
from kafkalog_cli.ops.check.checks.diagnose import Finding, finding, of_fault
from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.check.verify.identity import (
    identity_findings,
    of_several_clusters,
    restore_steps,
    second_metadata_log,
)
from kafkalog_cli.ops.check.verify.permissions import root_permissions
from kafkalog_cli.ops.look.listing.root import CheckpointedOffsets, LocatedFault, LogDirRoot
from kafkalog_cli.ops.steps import MOVE_ASIDE, Argv, Step, Steps, compare_command, nothing, path_word, together

_KINDS = {
    FileKind.META_PROPERTIES: FindingKind.META_PROPERTIES,
    FileKind.CLEAN_SHUTDOWN: FindingKind.SHUTDOWN_MARKER,
    FileKind.HELD_CLEAN_SHUTDOWN: FindingKind.SHUTDOWN_MARKER,
    FileKind.IMPORT_RECORD: FindingKind.IMPORT_CUT_OFF,
    FileKind.BOOTSTRAP_SNAPSHOT: FindingKind.METADATA_SNAPSHOT,
    **dict.fromkeys(OFFSET_CHECKPOINTS, FindingKind.CHECKPOINT_DAMAGED),
}
CHECKED_ROOT_KINDS = frozenset(_KINDS)
"""The files at the root whose contents `root_findings` checks."""


def root_findings(fs: Filesystem, root: LogDirRoot, settings: SettingsSource) -> Iterator[Finding]:
    """Yield the findings about files at the root, without the checkpoint lines about single partitions.

    Raises as `SettingsSource.metadata`.
    """
    if root.lock_owner is not None:
        who = "a broker" if root.lock_owner.is_exclusive else "a kafkalog command"
        pid = "" if root.lock_owner.pid is None else f", pid {root.lock_owner.pid}"
        yield finding(FindingKind.LOCKED, root.path, f"locked by {who}{pid}")
    yield from root_permissions(fs, root)
    for one in _fault_findings(fs, root):
        is_meta = one.kind is FindingKind.META_PROPERTIES
        steps = restore_steps(fs, root, settings) if is_meta else ()
        yield one._replace(steps=steps or one.steps)
    yield from identity_findings(fs, root, settings)
    for file in root.files:
        if file.path.endswith(f"/{FileKind.BOOTSTRAP_SNAPSHOT.value}"):
            from kafkalog_cli.ops.check.verify.metadata_log import bootstrap_findings

            yield from bootstrap_findings(fs, file.path, root.path)
    names = {classify_file(file.path.rpartition("/")[2]).kind for file in root.files}
    if FileKind.META_PROPERTIES not in names and _has_run(fs, root, names, settings):
        path = f"{root.path.rstrip('/')}/{FileKind.META_PROPERTIES.value}"
        steps = restore_steps(fs, root, settings)
        yield finding(FindingKind.META_PROPERTIES_MISSING, path, "missing", steps=steps)
    if root.marker_held_for:
        path = f"{root.path.rstrip('/')}/{FileKind.HELD_CLEAN_SHUTDOWN.value}"
        message = (
            f"the marker of a clean shutdown is kept away {root.marker_held_until}; without it a broker recovers all"
            " partitions when it starts, and leaves every in-sync replica set"
        )
        yield finding(FindingKind.MARKER_HELD, path, message, steps=_undo_steps(root))
    yield from _cut_off_import(root)
    yield from _second_lines(fs, root)
    unusable = {one.path for one in root.odd}
    for name_ in root.others:
        path, found = f"{root.path.rstrip('/')}/{name_}", classify_file(name_)
        if path in unusable:
            continue
        if found.state is WorkState.TEMPORARY:
            yield finding(FindingKind.LEFTOVER_TEMPORARY, path, "an unfinished temporary file")
        else:
            yield finding(FindingKind.UNKNOWN_FILE, path, "no file of Kafka has such a name")


_OF_OUR_FILES: dict[FileKind, tuple[str, Steps]] = {
    FileKind.HELD_CLEAN_SHUTDOWN: (
        "none: a broker does not know the file. It starts as after an unclean stop",
        (Step("nothing can be restored from it", MOVE_ASIDE, is_needed=False),),
    ),
    FileKind.IMPORT_RECORD: (
        "a broker that starts removes the partitions that are not in their places yet",
        (Step("its import is unknown"), Step("Move it aside and import again", MOVE_ASIDE)),
    ),
}
"""Broker effect and next step of damage in a file that kafkalog wrote."""


def _fault_findings(fs: Filesystem, root: LogDirRoot) -> Iterator[Finding]:
    """Yield a finding per fault of a file or directory at the root."""
    foreign = {f"{root.path.rstrip('/')}/{name}" for name in root.foreign}
    unusable = {one.path: one for one in root.odd if one.path not in foreign}
    yield from (unusable_file_finding(one) for one in unusable.values())
    for located in root.faults:
        if located.path in unusable:
            continue
        name = classify_file(located.path.rpartition("/")[2])
        if located.path in foreign:
            yield finding(FindingKind.FOREIGN_DIRECTORY, located.path, "is not a partition directory")
        elif located.fault.kind is FaultKind.UNREADABLE:
            yield finding(FindingKind.NOT_READ, located.path, located.fault.message)
        elif name.kind in OFFSET_CHECKPOINTS:
            yield damaged_checkpoint_finding(fs, root.path, name.kind, located)
        elif not located.fault.is_accepted:
            found = of_fault(located.path, located.fault, _KINDS.get(name.kind, FindingKind.CHECKPOINT_DAMAGED))
            effect, steps = _OF_OUR_FILES.get(name.kind, (found.broker_effect, found.steps))
            yield found._replace(broker_effect=effect, steps=steps)


def unusable_file_finding(unusable: UnusableFile) -> Finding:
    """Return the finding about an entry at the root that has the name of a file of Kafka, but is not a usable file."""
    if unusable.is_directory:
        return finding(FindingKind.FOREIGN_DIRECTORY, unusable.path, "is not a partition directory")
    return finding(FindingKind.ODD_FILE, unusable.path, f"{unusable.what}, with the name of a file of Kafka")


def first_in_the_way(root: LogDirRoot) -> Finding | None:
    """Return the finding about an entry at the root with which commands that change partitions are refused."""
    return next(
        (unusable_file_finding(one) for one in root.odd if classify_file(one.path.rpartition("/")[2]).kind in _WRITTEN),
        None,
    )


_WRITTEN = frozenset({FileKind.LOCK, FileKind.CLEAN_SHUTDOWN, FileKind.HELD_CLEAN_SHUTDOWN, *OFFSET_CHECKPOINTS})


def _has_run(fs: Filesystem, root: LogDirRoot, names: set[FileKind], settings: SettingsSource) -> bool:
    """Whether a broker that keeps meta.properties used the directory: a copy of partitions has no file at its root."""
    if names.isdisjoint(OFFSET_CHECKPOINTS):
        return FileKind.BOOTSTRAP_SNAPSHOT in names or FileKind.CLEAN_SHUTDOWN in names
    return settings.is_kraft(root.path) or not _may_be_of_08(fs, root, names)


def _may_be_of_08(fs: Filesystem, root: LogDirRoot, names: Collection[FileKind]) -> bool:
    """Whether nothing here is of Kafka 0.10 or later: 0.8 has no meta.properties, and 0.9 starts without it."""
    if FileKind.LOG_START_CHECKPOINT in names or not root.path:
        return False
    for entry in fs.list_directory(root.path):
        if entry.is_directory and classify_directory(entry.path.rpartition("/")[2]).kind is DirectoryKind.PARTITION:
            with suppress(KafkalogError):  # the directory cannot be listed
                if any(
                    classify_file(file.path.rpartition("/")[2]).kind in _SINCE_0_10
                    for file in fs.list_directory(entry.path)
                ):
                    return False
    return True


_SINCE_0_10 = (
    FileKind.TIME_INDEX,
    FileKind.TXN_INDEX,
    FileKind.PRODUCER_SNAPSHOT,
    FileKind.LEADER_EPOCH_CHECKPOINT,
    FileKind.PARTITION_METADATA,
)


def _cut_off_import(root: LogDirRoot) -> Iterator[Finding]:
    """Yield a finding about a committed import that was cut off, unless an import is running right now.

    Some partitions of such an import have not been moved to their places, or only its record is left.
    """
    left = root.imports
    if left.run is None or root.importer is not None:
        return
    from kafkalog_cli.ops.move.importing.sources import inputs_of, repeated_command  # a heavy import, rarely needed

    parts, effect = [], ""
    if left.coming:
        parts.append(f"still to come: {_some([one.path for one in left.coming])}")
    else:
        effect = "none"
    if left.lost:
        parts.append(f"removed by a broker that was started since, and to be imported again: {_some(left.lost)}")
    inputs = inputs_of(left.what.get("command", ()))
    of_inputs = f" of {_some(inputs)}" if inputs else ""
    message = f"an import{of_inputs} was cut off after its commit; {'; '.join(parts) or 'only its record is left'}"
    path = f"{root.path.rstrip('/')}/{FileKind.IMPORT_RECORD.value}"
    repeat = repeated_command(left.what, root.path)
    steps: Steps = ()
    if left.lost and not left.coming:
        steps = (Step(f"import the records of {_some(left.lost)} again: the next import removes the record"),)
    elif not left.coming:
        steps = (nothing(": the next import into this directory removes the record"),)
    elif repeat:
        steps = (Step("", repeat, "gives them their places", "; "), Step("repeat it before a broker starts"))
    yield finding(FindingKind.IMPORT_CUT_OFF, path, message, broker_effect=effect, steps=steps)


def staged_finding(root: LogDirRoot, name: str) -> Finding | None:
    """Return a finding for a staged directory that belongs to no committed import, None for any other directory.

    Such a directory is not checked inside.
    """
    if name not in root.imports.stale:
        return None
    path = f"{root.path.rstrip('/')}/{name}"
    if root.importer is not None:
        pid = "" if root.importer.pid is None else f", pid {root.importer.pid}"
        return finding(FindingKind.IMPORT_STAGED, path, f"an import is writing it{pid}", steps=(Step("let it end"),))
    return finding(FindingKind.IMPORT_STAGED, path, "an import that did not end left it: nothing was committed")


def _some(names: Sequence[str]) -> str:
    """Return the names as text: at most three of them, and the number of further names."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more}"


def _second_lines(fs: Filesystem, root: LogDirRoot) -> Iterator[Finding]:
    """Yield a finding per partition with several lines in one checkpoint."""
    for file in root.files:
        name = classify_file(file.path.rpartition("/")[2])
        if name.kind not in OFFSET_CHECKPOINTS or name.state is not WorkState.IN_PLACE:
            continue
        try:
            entries, _ = checkpoint.decode_offsets(read_all(fs, file.path))
        except (KafkalogError, OSError):
            continue
        for (topic, number), count in Counter((e.topic, e.partition) for e in entries).items():
            if count > 1:
                message = f"{count} lines for {topic}-{number}: a broker uses the last line"
                yield finding(FindingKind.CHECKPOINTS_DISAGREE, file.path, message)


def checkpoint_findings(
    root: LogDirRoot, partition: Partition, lines: CheckpointedOffsets, log: LogBounds | None
) -> Iterator[Finding]:
    """Compare the checkpoint lines about a partition with each other and with its log."""
    topic, number = partition.topic, partition.number
    values = (
        (FileKind.RECOVERY_POINT_CHECKPOINT, lines.recovery_point, FindingKind.RECOVERY_POINT_BEYOND_END),
        (FileKind.REPLICATION_CHECKPOINT, lines.high_watermark, FindingKind.HIGH_WATERMARK_BEYOND_END),
        (FileKind.LOG_START_CHECKPOINT, lines.log_start, FindingKind.LOG_START_BEYOND_END),
        (FileKind.CLEANER_CHECKPOINT, lines.cleaner, FindingKind.CLEANER_BEYOND_END),
    )
    for file, offset, kind in values:
        if offset is None:
            continue
        path = f"{root.path.rstrip('/')}/{file.value}"
        if offset < 0:
            message = f"{topic}-{number}: {offset} is not an offset"
            yield finding(FindingKind.CHECKPOINTS_DISAGREE, path, message, expected="0 or more", got=str(offset))
        elif log is not None and offset > log.end:
            message = f"{topic}-{number}: {_LINE_NAMES[kind]} ({offset}) is past the end of the log ({log.end})"
            if kind is FindingKind.HIGH_WATERMARK_BEYOND_END:
                lost = counted(offset - log.end, "acknowledged record is", "acknowledged records are")
                message += f": {lost} lost here"
            is_start = kind is FindingKind.LOG_START_BEYOND_END
            steps = _log_start_steps(path, (topic, number), offset, log) if is_start else ()
            expected, offsets = f"at most {log.end}", (log.end, offset)
            yield finding(kind, path, message, expected=expected, got=str(offset), offsets=offsets, steps=steps)
    start, watermark = lines.log_start, lines.high_watermark
    # After an unclean stop one file may be some seconds older than the other, so this is checked only after a clean
    # stop. A log start beyond the end of the log has a finding of its own, which recover does not correct.
    is_beyond_end = log is not None and start is not None and start > log.end
    is_above = start is not None and watermark is not None and start > watermark
    if root.shutdown is Shutdown.CLEAN and is_above and not is_beyond_end:
        path = f"{root.path.rstrip('/')}/{FileKind.LOG_START_CHECKPOINT.value}"
        message = f"{topic}-{number}: the log starts at {start}, above the high watermark, {watermark}"
        expected, got = f"at most {watermark}", str(start)
        yield finding(FindingKind.CHECKPOINTS_DISAGREE, path, message, expected=expected, got=got)


_LINE_NAMES = {
    FindingKind.RECOVERY_POINT_BEYOND_END: "the recovery point",
    FindingKind.HIGH_WATERMARK_BEYOND_END: "the high watermark",
    FindingKind.LOG_START_BEYOND_END: "the log start",
    FindingKind.CLEANER_BEYOND_END: "the cleaner's offset",
}

_LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]+")
"""The names that Kafka allows. Others may have a meaning to sed."""


def _log_start_steps(path: str, name: tuple[str, int], offset: int, log: LogBounds) -> Steps:
    """Return the steps that reset a line of log-start-offset-checkpoint to the start of the log.

    Its command keeps a copy of the old file.
    """
    meant = Step("if the records were deleted on purpose, nothing has to be done: a broker removes them")
    if not _LEGAL_TOPIC.fullmatch(name[0]):
        return (meant,)
    line = f"{name[0].replace('.', '[.]')} {name[1]}"
    edit = ("sed", "-i.aside", f"s/^{line} {offset}$/{name[0]} {name[1]} {log.start}/", path_word(path))
    return (meant, Step("Else do not start a broker before the line is put right, with a copy of the file", edit))


def _undo_steps(root: LogDirRoot) -> Steps:
    """Return the commands that restore the clean shutdown marker; there are none if the kept bytes were purged."""
    from kafkalog_cli.change.clean_marker import PURGED

    if PURGED in root.marker_held_for:
        why = "nothing can be done: a broker recovers all partitions when it starts, and then writes markers again"
        return (Step(why, is_needed=False),)
    log_dir = root.path.rstrip("/")
    commands: list[Argv] = [
        ("kafkalog", "undo", path_word(f"{log_dir}/{name}"), run)
        for run, names in root.marker_held_for.items()
        for name in names
    ]
    return (together(commands, "restores the marker, with the bytes that were cut off"),)


def findings_across(fs: Filesystem, roots: Sequence[LogDirRoot], settings: SettingsSource) -> dict[str, list[Finding]]:
    """Compare the log directories of one run; returns findings by the path of the later directory of each pair.

    A directory.id must be unique among all of them. Markers of a clean shutdown are compared only within one broker,
    since directories of several brokers may be given together.
    """
    found: dict[str, list[Finding]] = {root.path: [] for root in roots}
    for path, one in of_several_clusters(fs, roots, settings):
        found[path].append(one)
    first_of: dict[tuple[str | None, int | None], LogDirRoot] = {}
    directories: dict[str, LogDirRoot] = {}
    metadata_logs: dict[object, str] = {}
    for root in roots:
        found[root.path] += second_metadata_log(fs, root, metadata_logs)
        meta = root.meta
        if meta is None:
            continue
        path = f"{root.path.rstrip('/')}/{FileKind.META_PROPERTIES.value}"
        if meta.directory_id is not None:
            other = directories.setdefault(meta.directory_id, root)
            if other is not root:
                message = f"directory.id {meta.directory_id} is also that of {other.path}"
                kind, steps = FindingKind.META_PROPERTIES_DIFFER, _copies_steps(other.path, root.path)
                found[root.path].append(finding(kind, path, message, steps=steps))
        first = first_of.setdefault((meta.cluster_id, meta.node_id), root)
        if first is not root:
            found[root.path] += _marker_findings(first, root)
    return found


def _copies_steps(one: str, other: str) -> Steps:
    """Return the steps that show which of two directories with the same id is the copy."""
    compare = Step("", compare_command(one, other), "shows what each of them holds")
    decides = "The administrator decides which is the copy: a broker must have only one of them in log.dirs"
    return (compare, Step(decides))


def _marker_findings(first: LogDirRoot, root: LogDirRoot) -> Iterator[Finding]:
    """Yield a finding if the clean shutdown markers in two directories of one broker differ."""
    stops = {Shutdown.CLEAN, Shutdown.UNCLEAN}
    path = f"{root.path.rstrip('/')}/{FileKind.CLEAN_SHUTDOWN.value}"
    if root.shutdown is not first.shutdown and {root.shutdown, first.shutdown} == stops:
        clean, other = (first, root) if first.shutdown is Shutdown.CLEAN else (root, first)
        message = f"there is a marker in {clean.path}, none in {other.path}"
        yield finding(FindingKind.MARKERS_DIFFER, path, message)
    elif root.shutdown is Shutdown.CLEAN and root.broker_epoch != first.broker_epoch:
        message = f"broker epoch {_epoch(root)}, in {first.path} {_epoch(first)}"
        expected, got = _epoch(first), _epoch(root)
        yield finding(FindingKind.MARKERS_DIFFER, path, message, expected=expected, got=got)


def _epoch(root: LogDirRoot) -> str:
    return "unknown" if root.broker_epoch is None else str(root.broker_epoch)


_FAILS = {
    **dict.fromkeys(
        (FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.LOG_START_CHECKPOINT),
        "a broker takes the whole log directory offline when it starts, and stops if it has no other",
    ),
    FileKind.REPLICATION_CHECKPOINT: (
        "a broker takes the whole log directory offline when it begins to lead or follow a partition of it,"
        " and stops if it has no other"
    ),
    FileKind.CLEANER_CHECKPOINT: (
        "a broker takes the whole log directory offline when its cleaner first looks for work, and stops if it has"
        " no other"
    ),
}
_THROWS = {
    FileKind.RECOVERY_POINT_CHECKPOINT: (
        "a broker takes 0 for every partition in the file: after an unclean stop it recovers all logs from their start"
    ),
    FileKind.LOG_START_CHECKPOINT: (
        "a broker takes 0 for every partition in the file: deleted records that are still on the disk come back"
    ),
    FileKind.REPLICATION_CHECKPOINT: (
        "a broker starts, but can lead or follow none of the partitions in the log directory: clients get no leader"
    ),
    FileKind.CLEANER_CHECKPOINT: "the cleaner threads of a broker end: compacted topics are no longer cleaned",
}
_OUT_OF_MEMORY = "a broker runs out of memory when it reads this file: with the usual heap of 1 GiB it does not start"


_REBUILDS = "rebuilds the file from the lines that can be read"


def damaged_checkpoint_finding(fs: Filesystem, log_dir: str, kind: FileKind, located: LocatedFault) -> Finding:
    """Return a finding about one fault in a checkpoint; its severity depends on how a broker reads the whole file."""
    try:
        reading = broker_reading(read_all(fs, located.path))
    except (KafkalogError, OSError):
        reading = BrokerReading.FAILS
    is_silent = reading in (BrokerReading.ENTRIES, BrokerReading.THROWS) and kind is not FileKind.REPLICATION_CHECKPOINT
    effect = _OUT_OF_MEMORY
    if reading is BrokerReading.FAILS:
        effect = _FAILS[kind]
    elif reading is BrokerReading.THROWS:
        effect = _THROWS[kind]
    return finding(
        FindingKind.CHECKPOINT_DAMAGED if is_silent else FindingKind.CHECKPOINT_MALFORMED,
        located.path,
        located.fault.message,
        position=located.fault.position,
        expected=located.fault.expected,
        got=located.fault.got,
        broker_effect=effect,
        steps=(Step("", ("kafkalog", "recover", path_word(log_dir)), _REBUILDS),),
    )

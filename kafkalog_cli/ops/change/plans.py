"""The plans that change a partition: their base class, the fingerprints of files, and how a plan begins."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar, cast

from kafkalog_cli.broker.load_error import LoadFailed
from kafkalog_cli.broker.loaded_segment import LoadSettings
from kafkalog_cli.broker.open_log import OpenLog
from kafkalog_cli.change.changes import Change, Cut
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.disk.fs import FileStatus, Filesystem
from kafkalog_cli.disk.names import WorkState
from kafkalog_cli.errors import ExitCode, Refused, UnsupportedFormat
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.log.log_dir import HighWatermark, HighWatermarkOrigin, LineEdit
from kafkalog_cli.log.log_end import SegmentEnd, segment_end
from kafkalog_cli.log.partition import Partition, Segment, entries_of_log, is_passed_over
from kafkalog_cli.log.settings.source import SettingsSource
from kafkalog_cli.log.settings.topic_config import Setting, Settings
from kafkalog_cli.ops.steps import RECOVER, Step, Steps, text_of
from kafkalog_cli.results import EMPTY_IS_NULL, GIVEN, Before, Hidden, Named, PathName, lower_names, of

ChangePlanT = TypeVar("ChangePlanT", bound="ChangePlan")


class Remark(NamedTuple):
    """A remark on a file.

    `code` is WARNINGS, CORRUPTION, or REFUSED if the remark prevents the change.
    """

    path: PathName
    message: str
    code: Annotated[
        ExitCode,
        Named("severity"),
        Before("message"),
        lower_names(ExitCode.WARNINGS, ExitCode.CORRUPTION, ExitCode.REFUSED),
    ]
    position: Annotated[int | None, Before("severity"), "the byte of the file"] = None
    steps: Hidden[Steps] = ()

    @property
    def next_step(self) -> Annotated[str | None, EMPTY_IS_NULL]:
        """The steps as text; "" if there are none."""
        return text_of(self.steps)


class Fingerprint(NamedTuple):
    """A file's state when a plan was made. It is compared again before anything is changed."""

    name: str
    size_bytes: int
    mtime_ms: int
    inode: int


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """The changes to one partition, and the log that they leave.

    `log_dir` is the log directory whose checkpoints have the partition's lines, None if the partition is in none.
    """

    path: Annotated[PathName, "the partition directory"]
    topic: str
    partition: int
    log_dir: Hidden[str | None] = None
    dry_run: ClassVar[Annotated[bool, "nothing was changed: the other fields show what would be done"]] = GIVEN
    is_refused: Annotated[
        bool, Named("refused"), "nothing is changed, with or without --dry-run; a remark has the reason"
    ] = False
    run: ClassVar[Annotated[str | None, "the run that made the changes, for undo; null if nothing was changed"]] = GIVEN
    log_start_offset: Annotated[int | None, "after the changes; null if refused, or without segments"] = None
    log_end_offset: Annotated[int | None, "after the changes; null if refused, or without segments"] = None
    remarks: tuple[Remark, ...] = ()
    changes: Annotated[tuple[Change, ...], "changes of the partition's files, in order"] = ()
    line_edits: Annotated[
        tuple[LineEdit, ...], Named("checkpoints"), "the partition's lines in root checkpoints that change"
    ] = ()
    settings: Annotated[tuple[Setting, ...], "the settings that were used"] = ()
    fingerprints: Hidden[tuple[Fingerprint, ...]] = ()

    @classmethod
    def of(cls: type[ChangePlanT], partition: Partition, **fields: Any) -> ChangePlanT:
        """Return the plan of a partition with these `fields`."""
        return cls(partition.path, partition.topic, partition.number, partition.log_dir, **fields)

    @property
    def name(self) -> str:
        """The name of the partition's directory."""
        return self.path.rpartition("/")[2]

    @property
    def has_work(self) -> bool:
        """Whether the plan changes anything."""
        return not self.is_refused and bool(self.changes or self.line_edits)

    @property
    def drops_valid(self) -> bool:
        """Whether valid records are removed, so that the user is asked first."""
        return False

    @property
    def exit_code(self) -> ExitCode:
        """REFUSED if the plan is refused, else the worst code of the remarks on damage; OK without any."""
        if self.is_refused:
            return ExitCode.REFUSED
        codes = {remark.code for remark in self.remarks}
        return next((code for code in (ExitCode.CORRUPTION, ExitCode.WARNINGS) if code in codes), ExitCode.OK)


def in_place(plan: ChangePlan) -> frozenset[str]:
    """Return the names of the files that are cut in place."""
    return frozenset(change.name for change in plan.changes if isinstance(change, Cut))


def fingerprints_of(fs: Filesystem, directory: str) -> tuple[Fingerprint, ...]:
    """Return the fingerprints of a directory's regular files."""
    entries = (status for status in entries_of_log(fs, directory) if status.is_file and not is_passed_over(status))
    return tuple(map(_fingerprint, entries))


def check_unchanged(fs: Filesystem, plan: ChangePlan) -> None:
    """Raise Refused if a file of the partition has changed since the plan was made."""
    if fingerprints_of(fs, plan.path) != plan.fingerprints:
        raise Refused(path=plan.path, reason="a file has changed since the plan was made")


def _fingerprint(status: FileStatus) -> Fingerprint:
    return Fingerprint(status.path.rpartition("/")[2], status.size_bytes, status.mtime_ms, status.inode)


_TIERED = "remote.storage.enable"
_NEVER_TIERED = ("__consumer_offsets", "__transaction_state", "__share_group_state", "__remote_log_metadata")


def used_settings(settings: SettingsSource, log_dir: str | None, topic: str) -> tuple[Setting, ...]:
    """Return the settings for opening segments, each with its origin. Raises as `SettingsSource.metadata` does."""
    config = settings.topic_config(log_dir, topic)
    used = config["segment.index.bytes"], config["index.interval.bytes"], config["producer.id.expiration.ms"]
    return (*used, config[_TIERED]) if _is_tiered(topic, config) else used


def load_settings(partition: Partition, now_ms: int) -> LoadSettings:
    """Return the settings for opening the segments of a partition. Raises as `SettingsSource.metadata` does."""
    assert partition.settings is not None
    return load_settings_of(now_ms, used_settings(partition.settings, partition.log_dir, partition.topic))


def load_settings_of(now_ms: int, used: tuple[Setting, ...], limits: Limits = DEFAULT_LIMITS) -> LoadSettings:
    """Convert what `used_settings` returns, which a plan keeps, to LoadSettings."""
    index_bytes, interval_bytes, expiration_ms = (cast(int, setting.value) for setting in used[:3])
    is_tiered = any(setting.name == _TIERED for setting in used[3:])
    return LoadSettings(now_ms, index_bytes, interval_bytes, expiration_ms, limits, is_tiered)


def _is_tiered(topic: str, config: Settings) -> bool:
    """Whether a broker keeps older segments of the topic in remote storage (UnifiedLog.isRemoteLogEnabled).

    A broker without remote storage does not start while a topic uses it. So only a setting that disables remote storage
    rules it out.
    """
    system = "remote.log.storage.system.enable"
    is_ruled_out = config.is_configured(system) and not config.remote_storage_system_enable
    is_local = "compact" in config.cleanup_policy or topic in _NEVER_TIERED
    return config.remote_storage_enable and not is_ruled_out and not is_local


RECOVER_FIRST = (Step("", RECOVER, "repairs it, or prints what has to be done first"),)
"""The next step of a log in a state in which it must not be changed."""


@dataclass(frozen=True, slots=True)
class LogPlan(ChangePlan):
    """A plan that depends on which records are replicated."""

    high_watermark: Hidden[HighWatermark | None] = None
    watermark_offset: ClassVar[
        Annotated[
            int | None,
            Named("high_watermark"),
            Before("remarks"),
            "records below this offset are replicated; null if refused, and for 0.7",
        ]
    ] = of("high_watermark.offset")
    high_watermark_from: ClassVar[
        Annotated[HighWatermarkOrigin | None, Before("remarks"), "log-end: the checkpoint has no line of the partition"]
    ] = of("high_watermark.origin")


class Unready(Exception):
    """The log is in a state in which it must not be changed. The remark says why."""

    def __init__(self, path: str, message: str, position: int | None = None, steps: Steps = RECOVER_FIRST) -> None:
        self.remark = Remark(path, message, ExitCode.REFUSED, position, steps)
        super().__init__(message)


PlanT = TypeVar("PlanT", bound=LogPlan)


def delay_or_setting(config: Settings, wanted_ms: int | None) -> int:
    """Return how long `.deleted` files stay: as wanted, or as file.delete.delay.ms says."""
    return config.file_delete_delay_ms if wanted_ms is None else wanted_ms


def open_log(draft: Draft, partition: Partition, settings: LoadSettings, end_offset: int) -> OpenLog:
    """Return the log on a draft, opened as by a broker that starts now. Raises LoadFailed."""
    return OpenLog(draft, settings, partition.log_start, end_offset, is_clean=partition.is_clean)


def refused(plan: PlanT, error: Unready | LoadFailed) -> PlanT:
    """Return the plan as refused because of `error`, which is its only remark."""
    remark = error.remark if isinstance(error, Unready) else Unready(plan.path, str(error)).remark
    return replace(plan, remarks=(remark,), is_refused=True)


def check_logs(partition: Partition) -> None:
    """Raise UnsupportedFormat for segments of 0.7, Unready if there are no segments, or as `check_finished` does."""
    if any(segment.is_v07 for segment in partition.segments):
        raise UnsupportedFormat(path=partition.path, reason="a log of 0.7: of these commands only retain knows it")
    check_finished(partition)
    if not partition.segments:
        creates = "creates an empty segment, as a broker that starts does"
        raise Unready(partition.path, "it has no segment", steps=(Step("", (*RECOVER, "--like-broker"), creates),))


def check_finished(partition: Partition) -> None:
    """Raise Unready if a cleaning or a split was interrupted: the files in place may not be the log."""
    for file in partition.leftovers:
        if file.name.state in (WorkState.SWAP, WorkState.CLEANED) and file.name.offset is not None:
            raise Unready(file.status.path, "it has files of an unfinished cleaning or split")


def end_of(fs: Filesystem, partition: Partition, last: Segment) -> SegmentEnd:
    """Return where a broker would find the log end. Raises Unready for damaged checkpoints, and as `open_read` does."""
    for path, fault in partition.checkpoint_faults:
        raise Unready(path, f"its line for this partition is unknown: {fault.message}", fault.position)
    return segment_end(fs, last, like_clean_start=partition.is_clean)


def whole_end_of(fs: Filesystem, partition: Partition, last: Segment | None = None) -> int:
    """Return the log end offset; `last` is the last segment that counts, None for the last of all.

    Raises Unready if the log is damaged at its end, or ends before it starts.
    """
    last = last or partition.segments[-1]
    end = end_of(fs, partition, last)
    for fault in end.faults:
        raise Unready(last.log.path, f"it is damaged at its end: {fault.message}", fault.position)
    for fault in end.index_faults if partition.is_clean else ():
        path = last.log.path if last.offset_index is None else last.offset_index.path
        raise Unready(path, f"it is wrong at its end: {fault.message}", fault.position)
    if end.next_offset < partition.log_start:
        raise Unready(partition.path, f"it ends at {end.next_offset}, but would start at {partition.log_start}")
    return end.next_offset

"""The verbs of the command line for Python programs: the same plans, locks, refusals and undo; results are values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.errors import ExitCode, KafkalogError, combined_exit_code
from kafkalog_cli.format.internal_topics.schema import NEWEST, kafka_version_of
from kafkalog_cli.library.times import Time, epoch_ms
from kafkalog_cli.library.warning import warn
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.log.settings.cluster_metadata import MetadataPoint
from kafkalog_cli.ops.option_values import is_date
from kafkalog_cli.ops.selection import Selection
from kafkalog_cli.ops.session.observer import Note, Observer
from kafkalog_cli.ops.session.options import Context, Pace, SessionOptions
from kafkalog_cli.ops.session.session import Session
from kafkalog_cli.ops.session.verb import Summary, Verb
from kafkalog_cli.ops.session.work import Work

if TYPE_CHECKING:
    from typing import TypeAlias

    from typing_extensions import Unpack

    from kafkalog_cli.ops.cluster import ClusterDescription
    from kafkalog_cli.ops.compact.plan import CompactPlan
    from kafkalog_cli.ops.coordinators import Copies
    from kafkalog_cli.ops.delete_records import DeleteRecordsPlan
    from kafkalog_cli.ops.doctor.examination import Examination
    from kafkalog_cli.ops.group_history import OffsetChange
    from kafkalog_cli.ops.groups import GroupDescription
    from kafkalog_cli.ops.metadump.copying import Metadump
    from kafkalog_cli.ops.open_transactions import OpenInLog, TransactionalId
    from kafkalog_cli.ops.purge import PurgePlan
    from kafkalog_cli.ops.recover.recover import Recovered
    from kafkalog_cli.ops.retain.plan import RetainPlan
    from kafkalog_cli.ops.roll import RollPlan
    from kafkalog_cli.ops.session.work import Changed
    from kafkalog_cli.ops.truncate import TruncatePlan
    from kafkalog_cli.ops.undo.verb import Undone
    from kafkalog_cli.ops.verify.task import Verification

    Paths: TypeAlias = str | PathLike[str] | Sequence[str | PathLike[str]]


ResultT = TypeVar("ResultT")


class VerbOptions(TypedDict, total=False):
    """The options that every verb takes, with the names and meanings of the command line's options.

    `config` has topic settings by name. `now` is a time, see `Time`.
    """

    topics: Sequence[str]
    partitions: Sequence[int]
    dry_run: bool
    now: Time
    config: Mapping[str, object]
    broker_config: str | PathLike[str] | None
    metadata: str | PathLike[str] | None
    single_replica: bool
    wait_seconds: float
    jobs: int
    time_budget_seconds: float
    io_bytes_per_second: int


@dataclass(frozen=True, slots=True)
class Run(Generic[ResultT]):
    """The outcome of a verb.

    `results` are in the order of the partitions; `errors` are those of partitions that failed.

    `exit_code` is the command's. `notes` are the facts beside the results; each was a LogWarning too. `not_done` are
    the partitions that the time budget left unchanged: not started, or stopped before any change.
    """

    exit_code: ExitCode
    results: tuple[ResultT, ...]
    errors: tuple[KafkalogError, ...] = ()
    notes: tuple[Note, ...] = ()
    not_done: tuple[str, ...] = ()


class _Listener(Observer):
    """Collects results, errors and notes of a session; each note is also a LogWarning."""

    def __init__(self, unheard: frozenset[str]) -> None:
        self._unheard = unheard
        self.results: list[Any] = []
        self.errors: list[KafkalogError] = []
        self.notes: list[Note] = []

    def report(self, note: Note) -> None:
        if note.kind in self._unheard:
            return
        self.notes.append(note)
        warn(note.message, note.path)

    def report_now(self, notes: Sequence[Note]) -> None:
        for note in notes:
            self.report(note)

    def fail(self, error: KafkalogError, *, path: str | None = None, is_told: bool) -> None:
        del path, is_told
        self.errors.append(error)

    def show(self, result: Any) -> None:
        self.results.append(result)


class Call:
    """One call of a verb. `unheard` are kinds of notes that are left out."""

    def __init__(
        self,
        verb: Verb,
        paths: Paths,
        options: VerbOptions,
        context: Context | None = None,
        unheard: frozenset[str] = frozenset(),
    ) -> None:
        self.paths = path_texts(paths)
        self._listener = _Listener(unheard)
        argv = ("kafkalog_cli", verb.name, *self.paths)
        self.session = Session(verb, context or Context(), _session_options(options), self._listener, argv=argv)

    def run(self, do: Callable[[Work], Any], partitions: Sequence[Partition]) -> Run[Any]:
        """Run the verb. Raises KeyboardInterrupt after Ctrl-C, once the partitions that were being changed are done."""
        return self.ended(self.session.run(do, partitions))

    def ended(self, summary: Summary) -> Run[Any]:
        """Return the outcome. Raises KeyboardInterrupt after an interruption."""
        if self.session.interruptions.are_asked_for:
            raise KeyboardInterrupt
        heard, not_done = self._listener, tuple(partition.path for partition in summary.not_done)
        return Run(summary.code, tuple(heard.results), tuple(heard.errors), tuple(heard.notes), not_done)

    def on_logs(self, do: Callable[..., Any], *, takes_one: bool = False, **what: Any) -> Run[Any]:
        """Run a verb with its options on the writable partitions, or on the only one."""
        session, paths = self.session, self.paths
        partitions = session.one_partition(paths[0]) if takes_one else session.writable_partitions(paths)
        return self.run(partial(do, **what), partitions)


def path_texts(paths: Paths) -> list[str]:
    """Return one or several paths as a list of texts."""
    return [fspath(paths)] if isinstance(paths, str | PathLike) else [fspath(path) for path in paths]


def _text_of(path: str | PathLike[str] | None) -> str | None:
    return None if path is None else fspath(path)


def _session_options(options: VerbOptions) -> SessionOptions:
    return SessionOptions(
        selection=Selection(frozenset(options.get("topics", ())), frozenset(options.get("partitions", ()))),
        now_ms=epoch_ms(options.get("now"), is_clock=True),
        dry_run=options.get("dry_run", False),
        wait_seconds=options.get("wait_seconds", 0),
        single_replica=options.get("single_replica", False),
        config=[f"{name}={value}" for name, value in options.get("config", {}).items()],
        broker_config=_text_of(options.get("broker_config")),
        metadata=_text_of(options.get("metadata")),
        pace=Pace(options.get("jobs", 1), options.get("time_budget_seconds"), options.get("io_bytes_per_second")),
    )


def verify(
    paths: Paths, *, level: str = "normal", topics: Sequence[str] = (), partitions: Sequence[int] = ()
) -> Run[Verification]:
    """Check partitions and log directories as `kafkalog verify` does; `level` is quick, normal or deep.

    Each Verification has its findings. Raises NotKafkaLayout, Unreadable, PathNotFound.
    """
    from kafkalog_cli.ops.verify.task import Level
    from kafkalog_cli.ops.verify.verify import VERIFY, VerifyPlanner

    call = Call(VERIFY, paths, {"topics": topics, "partitions": partitions})
    planner = VerifyPlanner(call.session, Level(level))
    return call.ended(call.session.run_work(planner.verify, planner.works(call.paths)))


def cluster(
    paths: Paths,
    *,
    at: Time = None,
    since: Time = None,
    topics: Sequence[str] = (),
    metadata: str | PathLike[str] | None = None,
) -> ClusterDescription:
    """Describe a cluster from its metadata log as `kafkalog cluster` does.

    `at` and `since` are points: an offset, below which all records count, or a time (without a zone: UTC). Raises
    NothingSelected, PathNotFound, NotKafkaLayout, Unreadable.
    """
    from kafkalog_cli.ops.cluster import describe_cluster

    found = describe_cluster(
        RealFilesystem(), path_texts(paths), _text_of(metadata), _point(at), _point(since),
        topics=frozenset(topics),
    )  # fmt: skip
    for note in found.notes:
        warn(note.message, note.path)
    return found


def _point(point: Time) -> MetadataPoint | None:
    if point is None:
        return None
    text = str(point)
    is_offset = text.isdecimal() and not is_date(text)
    return MetadataPoint(int(text)) if is_offset else MetadataPoint(None, epoch_ms(point))


def metadump(paths: Paths, out: str | PathLike[str], *, hash_names: bool = False) -> Metadump:
    """Copy log directories without their data into the new directory `out`, as `kafkalog metadump` does.

    Raises UsageError, Refused, UnsupportedFormat, PathNotFound, NotKafkaLayout, Unreadable, NoSpace.
    """
    from kafkalog_cli.ops.metadump.copying import metadump as copy_without_data

    return copy_without_data(RealFilesystem(), path_texts(paths), fspath(out), hash_names=hash_names)


def doctor(  # noqa: PLR0913 options
    path: str | PathLike[str],
    text: str = "",
    *,
    level: str = "normal",
    broker_config: str | PathLike[str] | None = None,
    metadata: str | PathLike[str] | None = None,
    now: Time = None,
) -> Examination:
    """Examine a log directory as `kafkalog doctor` does; `text` has lines of its broker's log.

    The commands of the Examination are lists of words. Raises PathNotFound, NotKafkaLayout, Unreadable, UsageError.
    """
    from kafkalog_cli.ops.doctor.examination import examine
    from kafkalog_cli.ops.verify.task import Level

    options: VerbOptions = {"broker_config": broker_config, "metadata": metadata, "now": now}
    found = examine(Context(), _session_options(options), fspath(path), text, Level(level))
    for note in found.notes:
        warn(note.message, note.path)
    return found


def groups(
    paths: Paths,
    *,
    groups: Sequence[str] = (),
    topics: Sequence[str] = (),
    broker_config: str | PathLike[str] | None = None,
    metadata: str | PathLike[str] | None = None,
) -> Run[GroupDescription]:
    """Return the groups of consumers with offsets, lag and members, as `kafkalog groups` does.

    `groups` and `topics` choose; empty: all. Raises NothingSelected, UsageError, PathNotFound, NotKafkaLayout,
    Unreadable.
    """
    from kafkalog_cli.ops.coordinators import Copies
    from kafkalog_cli.ops.groups import GroupsRequest, describe_groups, offsets_retention

    log_dirs = Copies(RealFilesystem(), path_texts(paths), _text_of(metadata))
    retention = offsets_retention(log_dirs.fs, _text_of(broker_config))
    found = describe_groups(log_dirs, GroupsRequest(frozenset(groups), frozenset(topics), retention))
    return _without_session(found, log_dirs)


def group_history(
    paths: Paths,
    *,
    groups: Sequence[str] = (),
    topics: Sequence[str] = (),
    broker_config: str | PathLike[str] | None = None,
    metadata: str | PathLike[str] | None = None,
) -> Run[OffsetChange]:
    """Return each change of a committed offset with a verdict, in the order of the log, as `kafkalog groups --history`.

    `groups` and `topics` choose; empty: all. Raises as `groups`.
    """
    from kafkalog_cli.ops.coordinators import Copies
    from kafkalog_cli.ops.group_history import group_history as changes
    from kafkalog_cli.ops.groups import GroupsRequest, offsets_retention

    log_dirs = Copies(RealFilesystem(), path_texts(paths), _text_of(metadata))
    retention = offsets_retention(log_dirs.fs, _text_of(broker_config))
    found = changes(log_dirs, GroupsRequest(frozenset(groups), frozenset(topics), retention))
    return _without_session(found, log_dirs)


def transactions(
    paths: Paths,
    *,
    max_transaction_timeout_ms: int = 15 * 60_000,
    now: Time = None,
    metadata: str | PathLike[str] | None = None,
) -> Run[TransactionalId | OpenInLog]:
    """Return the transactional ids, then the transactions that are open in logs, as `kafkalog transactions` does.

    A transaction hangs only if its last batch is older than `max_transaction_timeout_ms` at `now`, epoch ms or a
    datetime. Raises PathNotFound, NotKafkaLayout, Unreadable.
    """
    from kafkalog_cli.ops.coordinators import Copies
    from kafkalog_cli.ops.open_transactions import find_transactions

    log_dirs = Copies(RealFilesystem(), path_texts(paths), _text_of(metadata))
    now_ms = epoch_ms(now, is_clock=True)
    found = find_transactions(log_dirs, Context().now_ms() if now_ms is None else now_ms, max_transaction_timeout_ms)
    return _without_session(found, log_dirs)


def _without_session(results: Iterable[ResultT], log_dirs: Copies) -> Run[ResultT]:
    """Return the outcome of a verb that only reads; its notes are LogWarnings too."""
    found = tuple(results)
    for note in log_dirs.notes:
        warn(note.message, note.path)
    return Run(combined_exit_code(log_dirs.codes), found, notes=tuple(log_dirs.notes))


def recover(
    paths: Paths,
    *,
    mode: str = "repair",
    since_recovery_point: bool = False,
    discard: bool = False,
    kafka_version: str = NEWEST.value,
    **options: Unpack[VerbOptions],
) -> Run[Recovered]:
    """Repair partitions as `kafkalog recover` does; `mode` is repair, like-broker or indexes-only.

    `kafka_version`: the release whose loader like-broker mirrors, such as 4.2. Raises UsageError, PathNotFound,
    NotKafkaLayout, NothingSelected. Failures of single partitions are in `errors`.
    """
    from kafkalog_cli.ops.recover.plan import RecoverMode
    from kafkalog_cli.ops.recover.recover import RECOVER, recovery

    call = Call(RECOVER, paths, options)
    version = kafka_version_of(kafka_version)
    return call.run(*recovery(
        call.session, call.paths, RecoverMode(mode),
        since_recovery_point=since_recovery_point, discard=discard, version=version,
    ))  # fmt: skip


def roll(paths: Paths, *, force: bool = False, **options: Unpack[VerbOptions]) -> Run[Changed[RollPlan]]:
    """Start new segments as `kafkalog roll` does. Raises as `recover`."""
    from kafkalog_cli.ops.roll import ROLL, roll_partition

    return Call(ROLL, paths, options).on_logs(roll_partition, force=force)


def retain(
    paths: Paths,
    *,
    delay_ms: int | None = None,
    keep: bool = False,
    explain: bool = False,
    **options: Unpack[VerbOptions],
) -> Run[Changed[RetainPlan]]:
    """Remove the segments that are past retention as `kafkalog retain` does. Raises as `recover`."""
    from kafkalog_cli.ops.retain.retain import RETAIN, retain_partition

    call = Call(RETAIN, paths, options)
    return call.on_logs(retain_partition, delay_ms=delay_ms, keeps=keep, explains=explain)


def compact(
    paths: Paths,
    *,
    force: bool = False,
    estimate: bool = False,
    delay_ms: int | None = None,
    **options: Unpack[VerbOptions],
) -> Run[Changed[CompactPlan]]:
    """Compact logs as `kafkalog compact` does, the dirtiest first.

    Raises as `recover`.
    """
    from kafkalog_cli.ops.compact.verb import COMPACT, compact_partition, dirtiest_first

    call = Call(COMPACT, paths, options)
    partitions = call.session.writable_partitions(call.paths)
    ordered = dirtiest_first(call.session, partitions, is_forced=force, delay_ms=delay_ms)
    return call.run(partial(compact_partition, is_forced=force, estimates=estimate, delay_ms=delay_ms), ordered)


def truncate(
    path: Paths, offset: int, *, discard: bool = False, **options: Unpack[VerbOptions]
) -> Run[Changed[TruncatePlan]]:
    """Truncate the log of one partition to `offset`, the first offset removed. Raises as `recover`."""
    from kafkalog_cli.ops.truncate import TRUNCATE
    from kafkalog_cli.ops.truncate import truncate as truncate_partition

    call = Call(TRUNCATE, path, options)
    return call.on_logs(truncate_partition, takes_one=True, target_offset=offset, discard=discard)


def delete_records(
    path: Paths, before_offset: int, *, delay_ms: int | None = None, keep: bool = False, **options: Unpack[VerbOptions]
) -> Run[Changed[DeleteRecordsPlan]]:
    """Move the log start offset of one partition to `before_offset`; -1: to the high watermark. Raises as `recover`."""
    from kafkalog_cli.ops.delete_records import DELETE_RECORDS
    from kafkalog_cli.ops.delete_records import delete_records as delete_from_partition

    call, do = Call(DELETE_RECORDS, path, options), delete_from_partition
    return call.on_logs(do, takes_one=True, before_offset=before_offset, delay_ms=delay_ms, keeps=keep)


def undo(path: Paths, run: str, **options: Unpack[VerbOptions]) -> Run[Undone]:
    """Undo a run on all partitions under `path` that have it. Raises as `recover`."""
    from kafkalog_cli.ops.undo.verb import UNDO, partitions_to_undo
    from kafkalog_cli.ops.undo.verb import undo as undo_on_partition

    call = Call(UNDO, path, options)
    return call.run(partial(undo_on_partition, run_id=run), partitions_to_undo(call.session, call.paths[0], run))


def purge(paths: Paths, *, older_than_ms: int = 604_800_000, **options: Unpack[VerbOptions]) -> Run[PurgePlan]:
    """Permanently remove files whose delay is over, and the files that old runs keep. Raises as `recover`.

    `older_than_ms`: the age from which a run's files are removed.
    """
    from kafkalog_cli.ops.purge import PURGE
    from kafkalog_cli.ops.purge import purge as purge_partition

    call = Call(PURGE, paths, options)
    return call.run(partial(purge_partition, older_than_ms=older_than_ms), call.session.partitions(call.paths))

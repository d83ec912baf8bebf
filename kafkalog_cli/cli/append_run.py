"""One run of `kafkalog append`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from kafkalog_cli.actions.append.ahead import Ahead, Records
from kafkalog_cli.actions.append.append import (
    Appended,
    AppendPlan,
    AppendRequest,
    apply_append,
    plan_append,
    rehearse,
)
from kafkalog_cli.actions.append.columns import NdjsonReader, RecordRun
from kafkalog_cli.actions.append.making import (
    is_topic_id,
    made_partition,
    partition_to_make,
    refused_to_make,
    topic_id_for,
)
from kafkalog_cli.actions.append.partitioning import Partitioner, SortedLines, number_of_partitions
from kafkalog_cli.actions.append.reading import (
    LineFormat,
    NewRecord,
    Parse,
    Piece,
    PieceLines,
    line_parser,
    parse_ndjson,
    read_records,
)
from kafkalog_cli.actions.append.skipping import Skipped, without_first
from kafkalog_cli.actions.append.writing import Writing
from kafkalog_cli.actions.apply_changes import Applied
from kafkalog_cli.actions.partition_facts import (
    PartitionFacts,
    facts_of_new,
    places_of_partitions,
    topic_id_of,
)
from kafkalog_cli.actions.refusals import Action
from kafkalog_cli.actions.root_state import RootState
from kafkalog_cli.cli.append_inputs import AppendInputs, InputCutOff
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.log_run import LogRunOptions
from kafkalog_cli.cli.log_writer import Changed, LogWriter
from kafkalog_cli.cli.partition_run import Work
from kafkalog_cli.errors import ExitCode, HalfChanged, NotChanged, UsageError
from kafkalog_cli.output.append_json import APPENDED, appended_fields
from kafkalog_cli.output.append_text import append_words, command_that_goes_on, interrupted_words
from kafkalog_cli.output.log_change_text import Said, undo_words
from kafkalog_cli.storage.changing.lock import log_dir_of
from kafkalog_cli.storage.changing.manifest import RunInfo
from kafkalog_cli.storage.names import FileKind, segment_file_name
from kafkalog_cli.storage.partition import Partition


@dataclass(frozen=True, slots=True)
class AppendOptions(LogRunOptions):
    """The command line of append, as it is."""

    files: tuple[str, ...] = field(kw_only=True)
    more_paths: tuple[str, ...] = field(default=(), kw_only=True)
    is_ndjson: bool = field(kw_only=True)
    key_separator: str | None = field(kw_only=True)
    topic_id: str | None = field(default=None, kw_only=True)
    skipped: Skipped = field(default=Skipped(), kw_only=True)
    writing: Writing = field(kw_only=True)

    def check(self) -> None:
        """Raises UsageError for what contradicts itself."""
        self.writing.check(_spelled)
        if self.writing.keep_offsets and not self.is_ndjson:
            raise UsageError(reason="--keep-offsets is for --input ndjson: lines have none")
        if self.key_separator is not None and self.is_ndjson:
            raise UsageError(reason="--key-separator is for --input lines")
        if self.key_separator == "":
            raise UsageError(reason="--key-separator is empty")
        if self.topic_id is not None and not is_topic_id(self.topic_id):
            raise UsageError(reason=f"--topic-id: {self.topic_id} is no topic id")


def _spelled(name: str) -> str:
    return f"--{name.replace('_', '-')}"


class AppendRun(LogWriter[AppendPlan]):
    """Appends to a partition, or to those of a topic, what the files hold."""

    verb = "append"
    warns_first = True
    watches_logs = False  # the progress counts the bytes of the input
    action = Action.APPEND
    schema = APPENDED

    def __init__(self, environment: Environment, options: AppendOptions) -> None:
        options.check()
        super().__init__(environment, options)
        self._appending = options
        self._made: str | None = None
        self._sorted: SortedLines | None = None
        self._inputs = AppendInputs(environment, options.files, self._interruptions, self._progress)
        self._appended: dict[int, int] = {}
        self._end_offsets: dict[int, int] = {}
        self.counts.update(records=0, batches=0, appended_bytes=0)

    def targets(self, path: str) -> list[Partition]:
        """The partitions that the paths and the selection name; one that is not there yet is made when it is its turn.

        Raises as `ours` does, UsageError for several that are not of one topic, and for a --topic-id where nothing is
        to be made.
        """
        new = None if self._appending.more_paths else partition_to_make(self._fs, path)
        if new is None:
            found = self._of_one_topic([path, *self._appending.more_paths])
            self._check_topic_id(found)
            return found
        self._made = new.path
        self._named = frozenset({new.path})
        return [new]

    def _check_topic_id(self, partitions: list[Partition]) -> None:
        """That of the command line is for what is to be made, or was by a run that was cut off."""
        wanted = self._appending.topic_id
        for partition in partitions if wanted is not None else ():
            if topic_id_of(self._fs, partition) != wanted:
                raise UsageError(reason=f"--topic-id is for a partition that is to be made, not for {partition.path}")

    def _of_one_topic(self, paths: list[str]) -> list[Partition]:
        selection = self._options.selection
        if len(paths) == 1 and (selection is None or not selection.topics):
            return self.one(paths[0])
        found = self.ours(paths)
        topics = sorted({partition.topic for partition in found})
        if len(topics) > 1:
            raise UsageError(reason=f"append takes partitions of one topic, not of {', '.join(topics[:3])}")
        return found

    def run_on(self, partitions: list[Partition]) -> int:
        """See LogRun; what is for several partitions is read to its end first."""
        numbers = [partition.number for partition in partitions]
        self._appending.skipped.check(numbers)
        self._appended = {number: self._appending.skipped.of(number) for number in numbers}
        if len(partitions) == 1:
            self._progress.expect(self._inputs.total_bytes())
            return super().run_on(partitions)
        self._settings = self._source(partitions)
        log_dirs = {log_dir_of(self._fs, partition.path): None for partition in partitions}
        metadata = self._settings.metadata(next(iter(log_dirs)))
        topic = None if metadata is None else metadata.topics.get(partitions[0].topic)
        places = places_of_partitions(self._fs, [log_dir for log_dir in log_dirs if log_dir is not None])
        count = number_of_partitions(partitions, None if topic is None else len(topic.partitions), places)
        self._sorted = SortedLines(Partitioner(numbers, count, self._appending.writing.batch_bytes), numbers)
        with closing(self._sorted):
            try:
                self._sort(self._sorted)
            except (KeyboardInterrupt, InputCutOff):  # nothing is locked or changed yet
                self._tell_how_to_go_on()
                self.summary(ExitCode.INTERRUPTED, **self.counts)
                return ExitCode.INTERRUPTED
            self._progress.begin(self.verb, self._sorted.size_bytes)
            return super().run_on(partitions)

    def _sort(self, lines: SortedLines) -> None:
        """All of the input, by partition. Raises BadInput, KeyboardInterrupt, InputCutOff."""
        sort = lines.sorting(self._parse(with_origin=True))
        self._progress.begin("reading", self._inputs.total_bytes())
        with self._interruptions.watched(), self._progress:
            for name, pieces in self._inputs.each(self._interruptions.safe_point):
                for _ in read_records(PieceLines(pieces), name, sort):
                    pass
            self._interruptions.safe_point()

    def after_all(self, code: ExitCode) -> ExitCode:
        """See LogRun; an interrupted run says how it goes on."""
        if code is ExitCode.INTERRUPTED and self._interruptions.are_asked_for:
            self._tell_how_to_go_on()
        return code

    def _tell_how_to_go_on(self) -> None:
        if self._writing.dry_run:
            return
        words = interrupted_words(self._appended, self._end_offsets, has_stdin=self._inputs.has_stdin)
        step = command_that_goes_on(self._environment.argv, self._appended)
        self._messages.tell("interrupted", words, exit_code=ExitCode.INTERRUPTED, next_step=step)

    def show(self, result: Changed[AppendPlan]) -> ExitCode:
        """See LogWriter."""
        plan = result.plan
        if plan.appended is not None and result.done is not None:
            self._appended[plan.partition] += plan.appended.records - plan.appended.markers
            self._end_offsets[plan.partition] = plan.appended.end_offset
        return super().show(result)

    def partition(self, work: Work) -> Changed[AppendPlan]:
        """See PartitionRun."""
        if self._made is None:
            return self._append_to(work)
        topic_id = topic_id_for(work.partition, self._appending.topic_id, self._settings, work.log_dir)
        if work.fs.status(self._made) is None:
            self.check(work, facts=self._facts_of_new(work), makes_directory=True, topic_id=topic_id)
        if self._writing.dry_run:
            raise NotChanged(path=self._made, reason="it is not there yet, and a dry run makes none")
        self.warn_now(work)
        try:
            with made_partition(work.fs, self._made, topic_id, self._clock.now_ms) as work.partition:
                changed = self._append_to(work)
                if changed.plan.is_refused:
                    raise _RefusedError(replace(changed, plan=refused_to_make(changed.plan)))
        except HalfChanged:
            raise
        except _RefusedError as refused:
            return refused.changed
        except BaseException:
            with suppress(OSError):
                if work.fs.status(self._made) is not None:
                    work.tell("new-partition", "this partition was made, and is left there", self._made)
            raise
        told = "empty" if changed.done is None else "undo takes it away"
        work.tell("new-partition", f"this partition was made; {told}", self._made)
        return changed

    def _facts_of_new(self, work: Work) -> PartitionFacts:
        return facts_of_new(work.fs, work.partition, work.log_dir, self._settings, self._places)

    def _append_to(self, work: Work) -> Changed[AppendPlan]:
        plan = self.plan(work, self.begin(work))
        if self._writing.dry_run and not plan.is_refused:
            with Ahead(self._records(work)) as records:
                found = rehearse(plan, records, self._request(work))
            self._interruptions.safe_point()
            self._tell_odd_time(work, found)
            return Changed(plan.after(found), None)
        return self.carry_out(work, plan)

    def plan(self, work: Work, root: RootState) -> AppendPlan:
        """See LogWriter."""
        plan = plan_append(work.fs, work.partition, root, self._request(work))
        last = work.partition.segments[-1].base_offset if work.partition.segments else 0
        log_name = segment_file_name(last, FileKind.LOG)
        is_new, topic_id = self._made is not None, topic_id_of(work.fs, work.partition)
        self.check(work, in_place=frozenset({log_name}), makes_directory=is_new, topic_id=topic_id)
        return plan

    def apply(self, work: Work, plan: AppendPlan, run: RunInfo) -> Changed[AppendPlan]:
        """See LogWriter."""
        info = replace(run, makes_directory=self._made is not None)
        with Ahead(self._records(work)) as records:
            result = apply_append(
                *(work.fs, plan, records, info, self._request(work)),
                held=work.lock,
                may_go_on=lambda: not self._interruptions.are_asked_for,
            )
        self._tell_odd_time(work, result.appended)
        is_cut_short = not result.is_whole
        if is_cut_short and result.done is not None and self._appending.writing.transaction in ("commit", "abort"):
            work.tell("transaction", "its transaction is left open: not all of it came", plan.path)
        return Changed(plan.after(result.appended, is_cut_short=is_cut_short), result.done)

    def said(self, plan: AppendPlan, done: Applied | None) -> Said:
        """See LogWriter."""
        return Said(append_words(plan), undo_words(plan, done))

    def drops(self, plan: AppendPlan) -> bool:
        """See LogWriter."""
        del plan
        return False

    def fields(self, plan: AppendPlan) -> dict[str, Any]:
        """See LogWriter."""
        return appended_fields(plan)

    def count(self, plan: AppendPlan, done: Applied | None) -> None:
        """See LogWriter."""
        del done
        if plan.appended is not None:
            self.counts["records"] += plan.appended.records
            self.counts["batches"] += plan.appended.batches
            self.counts["appended_bytes"] += plan.appended.size_bytes

    def _tell_odd_time(self, work: Work, appended: Appended) -> None:
        if appended.odd_time is not None:
            work.tell("time-unit", appended.odd_time.warning, work.partition.path)

    def _records(self, work: Work) -> Records:
        """The records for a partition, but for those to be skipped. Raises BadInput, and as `open_read` does."""
        records = self._all_records(work)
        skipped = self._appending.skipped.of(work.partition.number)
        try:
            yield from without_first(records, skipped) if skipped else records
        except InputCutOff:  # the run is interrupted: what came before is appended
            return

    def _all_records(self, work: Work) -> Records:
        if self._sorted is not None:
            yield from self._taken_apart("the input", self._sorted_pieces(work, self._sorted))
            return
        safe_point = self._interruptions.safe_point if self._writing.dry_run else lambda: None
        for name, pieces in self._inputs.each(safe_point):
            yield from self._taken_apart(name, pieces)

    def _sorted_pieces(self, work: Work, lines: SortedLines) -> Iterator[Piece]:
        for piece in lines.pieces(work.partition.number):
            self._progress.advance(len(piece), work.partition.path)
            yield piece

    def _taken_apart(self, name: str, pieces: Iterator[Piece]) -> Iterator[NewRecord | RecordRun | None]:
        options = self._appending
        if options.is_ndjson and not options.writing.keep_offsets:
            return NdjsonReader(self._environment.kernels, self._clock.now_ms).records(pieces, name)
        return read_records(PieceLines(pieces), name, self._parse(with_origin=options.writing.keep_offsets))

    def _parse(self, *, with_origin: bool) -> Parse:
        options = self._appending
        if options.is_ndjson:
            return partial(parse_ndjson, with_origin=with_origin)
        separator = None if options.key_separator is None else options.key_separator.encode("utf-8", "surrogateescape")
        return line_parser(LineFormat(separator))

    def _request(self, work: Work) -> AppendRequest:
        writing = self._appending.writing
        if self._appending.skipped.of(work.partition.number):  # the sequences go on after those of the interrupted run
            writing = replace(writing, first_sequence=None)
        return AppendRequest(
            self._clock.now_ms,
            self._settings,
            kernels=self._environment.kernels,
            writing=writing,
            clock=lambda: int(self._environment.clock() * 1000),
        )


class _RefusedError(Exception):
    """A plan that is refused has no work; the partition that was made for it is taken away again."""

    def __init__(self, changed: Changed[AppendPlan]) -> None:
        super().__init__()
        self.changed = changed

"""The verb `append`: records from files or standard input, to one partition, to a topic's, or to a new partition."""

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from kafkalog_cli.change.new_partition import Made
from kafkalog_cli.disk.durable import is_half_changed
from kafkalog_cli.disk.names import FileKind, segment_file_name
from kafkalog_cli.errors import NotChanged, PartitionLeft, UsageError
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.call.call import Call, Run
from kafkalog_cli.ops.call.target import Changed, Target
from kafkalog_cli.ops.change.append.append import (
    AppendPlan,
    apply_append,
    plan_append,
    rehearse,
)
from kafkalog_cli.ops.change.append.arrow import ArrowReader
from kafkalog_cli.ops.change.append.batching import Writing
from kafkalog_cli.ops.change.append.inputs import (
    AppendInputs,
    InputCutOff,
    Records,
    SkippedRecords,
    read_ahead,
    without_first,
)
from kafkalog_cli.ops.change.append.lines import records_of_lines
from kafkalog_cli.ops.change.append.making import (
    is_topic_id,
    made_partition,
    may_be_there,
    partition_to_make,
    refused_to_make,
    topic_id_for,
)
from kafkalog_cli.ops.change.append.partitioning import Partitioner, SortedRecords, number_of_partitions
from kafkalog_cli.ops.change.append.reading import Parse, line_parser, parse_kcat, parse_ndjson
from kafkalog_cli.ops.change.refusals import Action
from kafkalog_cli.ops.choices import Hashing
from kafkalog_cli.ops.ownership import places_of_partitions, registered_topic


@dataclass(frozen=True, slots=True)
class AppendOptions:
    """The input of an append, and how it is appended.

    `key_separator` separates keys from values in lines. None: lines have no keys. `is_kcat`: lines of `kcat -J`.
    `hashing` chooses among several partitions.
    """

    writing: Writing
    is_ndjson: bool = True
    key_separator: str | None = None
    topic_id: str | None = None
    skipped: SkippedRecords = field(default=SkippedRecords())
    is_kcat: bool = False
    hashing: Hashing = Hashing.MURMUR2_RANDOM

    def check(self) -> None:
        """Raise UsageError if options contradict each other."""
        self.writing.check(_spelled)
        if self.writing.keep_offsets and not (self.is_ndjson or self.is_kcat):
            raise UsageError(reason="--keep-offsets is for --input ndjson: lines have none")
        if self.key_separator is not None and (self.is_ndjson or self.is_kcat):
            raise UsageError(reason="--key-separator is for --input lines")
        if self.key_separator == "":
            raise UsageError(reason="--key-separator is empty")
        if self.topic_id is not None and not is_topic_id(self.topic_id):
            raise UsageError(reason=f"--topic-id: {self.topic_id} is not a topic id")


def _spelled(name: str) -> str:
    return f"--{name.replace('_', '-')}"


class ArrowInput(NamedTuple):
    """Records of a program, as RecordBatches."""

    parts: Iterable[Any]


class Appending:
    """One append, to one or several partitions.

    `appended` is the number of input records appended so far by partition, `end_offsets` the end of the log by
    partition.
    """

    def __init__(self, call: Call, options: AppendOptions, inputs: AppendInputs | ArrowInput) -> None:
        self._call = call
        self._options = options
        self._inputs = inputs
        self._made: str | None = None
        self._made_files: Made | None = None
        self._sorted: SortedRecords | None = None
        self.appended: dict[int, int] = {}
        self.end_offsets: dict[int, int] = {}

    # ---- before the partitions are worked on

    def targets(self) -> list[Partition]:
        """Return the partitions that the paths and the selection name; a new partition is made later, in its turn.

        Raises as `Call.writable_partitions`. Raises UsageError for partitions of several topics, and for a
        --topic-id if no partition is to be made.
        """
        call = self._call
        new = None if len(call.paths) > 1 else partition_to_make(call.fs, call.paths[0], call.roots)
        if new is not None:
            self.take(new, is_new=True)
            found = [new]
        else:
            found = self._of_one_topic()
            self._check_topic_id(found)
        numbers = [partition.number for partition in found]
        self._options.skipped.check(numbers)
        self.appended = {number: self._options.skipped.of(number) for number in numbers}
        return found

    def take(self, partition: Partition, *, is_new: bool) -> None:
        """Append to this partition only; `is_new`: it is made in its turn."""
        self._made = partition.path if is_new else None
        self._call.named_paths = frozenset({partition.path})
        self.appended = {partition.number: 0}

    def _check_topic_id(self, partitions: list[Partition]) -> None:
        """Raise UsageError if --topic-id differs from the topic id of an existing partition.

        The option is for new partitions. A partition that a cut-off run has made may exist already, with that topic id.
        """
        topic_id = self._options.topic_id
        for partition in partitions if topic_id is not None else ():
            if partition.topic_id != topic_id:
                raise UsageError(reason=f"--topic-id is for a partition that is to be made, not for {partition.path}")

    def _of_one_topic(self) -> list[Partition]:
        if len(self._call.paths) == 1 and not self._call.selection.topics:
            return self._call.one_partition()
        found = self._call.writable_partitions()
        topics = sorted({partition.topic for partition in found})
        if len(topics) > 1:
            raise UsageError(reason=f"append takes partitions of one topic, not of {', '.join(topics[:3])}")
        return found

    def sort(self, partitions: Sequence[Partition]) -> SortedRecords:
        """Read all of the input and sort it by partition, before any of several partitions is changed.

        Raises BadInput, KeyboardInterrupt, InputCutOff, and as `SettingsSource.metadata` does. Close the result.
        """
        call, numbers = self._call, [partition.number for partition in partitions]
        metadata = call.settings(partitions).metadata(call.log_dir(partitions[0].path))
        topic = registered_topic(metadata, partitions[0].topic)
        places = places_of_partitions(call.fs, call.log_dirs(partitions))
        count = number_of_partitions(partitions, None if topic is None else len(topic.partitions), places)
        options = self._options
        found = SortedRecords(
            Partitioner(numbers, count, options.writing.batch_bytes, hashing=options.hashing), numbers
        )
        try:
            self._read_into(found)
        except BaseException:
            found.close()
            raise
        self._sorted = found
        return found

    def _read_into(self, found: SortedRecords) -> None:
        parse, interruptions = found.placing(self._parse(with_origin=True)), self._call.interruptions
        self._call.observer.progress.begin("reading", self._files.total_bytes())
        with interruptions.watched(), self._call.observer.progress:
            for name, pieces in self._files.each(interruptions.safe_point):
                for records in records_of_lines(pieces, name, self._call.clock.now_ms, parse):
                    if records is not None:
                        found.add(records)
            interruptions.safe_point()

    @property
    def _files(self) -> AppendInputs:
        assert isinstance(self._inputs, AppendInputs)
        return self._inputs

    @property
    def has_stdin(self) -> bool:
        """Whether standard input is read."""
        return self._files.has_stdin

    @property
    def total_bytes(self) -> int | None:
        """The number of bytes to append, None if not known."""
        return self._files.total_bytes() if self._sorted is None else self._sorted.size_bytes

    def append(self, partitions: Sequence[Partition]) -> Run[Changed[AppendPlan]]:
        """Append to the partitions. Progress counts the bytes of the input.

        A program's records are appended after another append to the partition has ended, and an interruption takes all
        of them back.
        """
        stops_safely = not isinstance(self._inputs, ArrowInput)
        return self._call.change_each(partitions, self._append, counts_logs=False, stops_safely=stops_safely)

    # ---- one partition

    def _append(self, work: Target) -> Changed[AppendPlan]:
        if isinstance(self._inputs, ArrowInput) and work.partition.segments:
            with work.locked():
                work.reopen()  # another append may have ended while this one waited for the lock
                return self._append_locked(work)
        return self._append_locked(work)

    def _append_locked(self, work: Target) -> Changed[AppendPlan]:
        changed = self._append_to(work) if self._made is None else self._append_to_new(work, self._made)
        plan = changed.plan
        if plan.appended is not None and changed.done is not None:
            self.appended[plan.partition] += plan.appended.records - plan.appended.markers
            self.end_offsets[plan.partition] = plan.appended.end_offset
        return changed

    def _append_to_new(self, work: Target, path: str) -> Changed[AppendPlan]:
        topic_id = topic_id_for(work.fs, work.partition, self._options.topic_id, work.settings, work.log_dir)
        is_missing = work.fs.status(path) is None
        if is_missing:
            work.check(Action.APPEND, makes_directory=True, topic_id=topic_id)
        if work.dry_run:
            what = "the partition does not exist" if is_missing else "the directory has no segment"
            raise NotChanged(path=path, reason=f"{what} yet, and a dry run makes none")
        work.report_now()
        try:
            with made_partition(work.fs, path, topic_id, work.clock.now_ms, work.call.lock_policy) as found:
                work.partition, self._made_files = found
                work.partition.join(work.call.roots.again())
                changed = self._append_to(work)
                if changed.plan.is_refused:
                    raise _NotMadeError(replace(changed, plan=refused_to_make(changed.plan)))
                if changed.done is None:
                    raise _NotMadeError(changed)
        except _NotMadeError as unmade:
            if not unmade.changed.plan.is_refused:
                work.note("new-partition", "this partition was not made: nothing was appended", path)
            return unmade.changed
        except BaseException as error:
            is_told = isinstance(error, PartitionLeft) or is_half_changed(error)
            if not is_told and may_be_there(work.fs, path):
                work.note("new-partition", "this partition was made, and stays", path)
            raise
        if is_missing:
            work.note("new-partition", "this partition was made; undo removes it", path)
        else:
            work.note("new-partition", "the first segment of an empty partition was made; undo removes it", path)
        return changed

    def _append_to(self, work: Target) -> Changed[AppendPlan]:
        plan = self._plan(work)
        if work.dry_run and not plan.is_refused:
            with self._ahead(self._records(work)) as records:
                plan = rehearse(work.fs, plan, records)
            self._call.interruptions.safe_point()
            self._note_time_unit(work, plan)
            return Changed(plan, None, is_dry_run=True)
        if work.dry_run or not plan.has_work:
            return Changed(plan, None, work.dry_run)
        with work.ready_to_change(plan, warns_first=True):
            return self._apply(work, plan)

    def _plan(self, work: Target) -> AppendPlan:
        work.begin()
        writing = self._options.writing
        if self._options.skipped.of(work.partition.number):  # the sequences continue those of the interrupted run
            writing = replace(writing, first_sequence=None)
        plan = plan_append(work.fs, work.partition, work.clock.now_ms, writing)
        last = work.partition.segments[-1].base_offset if work.partition.segments else 0
        work.check(
            Action.APPEND,
            in_place=frozenset({segment_file_name(last, FileKind.LOG)}),
            makes_directory=self._made is not None,
            topic_id=work.partition.topic_id,
        )
        return plan

    def _apply(self, work: Target, plan: AppendPlan) -> Changed[AppendPlan]:
        made, run = self._made_files, work.call.run_info(plan.settings)
        if made is not None:
            run = replace(run, makes_directory=made.is_directory, makes_files=() if made.is_directory else made.files)
        with self._ahead(self._records(work)) as records:
            plan, done = apply_append(
                *(work.fs, plan, records, run),
                flush_clock=lambda: int(self._call.context.clock() * 1000),
                may_go_on=lambda: not self._call.interruptions.is_requested,
            )
        self._note_time_unit(work, plan)
        if plan.is_cut_short and done is not None and plan.writing.transaction in ("commit", "abort"):
            work.note("transaction", "the transaction stays open: the input ended early", plan.path)
        return work.changed(plan, done)

    def _note_time_unit(self, work: Target, plan: AppendPlan) -> None:
        if plan.appended is not None and plan.appended.time_in_other_unit is not None:
            work.note("time-unit", plan.appended.time_in_other_unit.warning, plan.path)

    # ---- the records

    def _ahead(self, records: Records) -> closing[Records]:
        """Return the records, read ahead in a thread, except a program's own: those are read in its thread."""
        return closing(records if isinstance(self._inputs, ArrowInput) else read_ahead(records))

    def _records(self, work: Target) -> Records:
        """Yield the records for a partition, without those to skip. Raises BadInput, and as `open_read` does."""
        records = self._all_records(work)
        skipped = self._options.skipped.of(work.partition.number)
        try:
            yield from without_first(records, skipped) if skipped else records
        except InputCutOff:  # interrupted: the records before are appended
            return

    def _all_records(self, work: Target) -> Records:
        if self._sorted is not None:
            for found in self._sorted.of(work.partition.number):
                self._call.observer.progress.advance(found.size_bytes, work.partition.path)
                yield found
            return
        if isinstance(self._inputs, ArrowInput):
            yield from ArrowReader(work.clock.now_ms).records(self._inputs.parts)
            return
        safe_point = self._call.interruptions.safe_point if work.dry_run else lambda: None
        keeps, now_ms = self._options.writing.keep_offsets, self._call.clock.now_ms
        for name, pieces in self._files.each(safe_point):
            parse, is_plain = self._parse(with_origin=keeps), self._options.is_ndjson and not keeps
            yield from records_of_lines(pieces, name, now_ms, parse, has_plain_ndjson=is_plain)

    def _parse(self, *, with_origin: bool) -> Parse:
        options = self._options
        if options.is_kcat:
            return partial(parse_kcat, with_origin=with_origin)
        if options.is_ndjson:
            return partial(parse_ndjson, with_origin=with_origin)
        separator = None if options.key_separator is None else options.key_separator.encode("utf-8", "surrogateescape")
        return line_parser(separator)


class _NotMadeError(Exception):
    """Carries a plan without a change out of `made_partition`, which then removes the partition it made."""

    def __init__(self, changed: Changed[AppendPlan]) -> None:
        super().__init__()
        self.changed = changed

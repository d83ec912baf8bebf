"""One run of `kafkalog append`."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kafkalog_cli.actions.append.append import (
    AppendPlan,
    AppendRequest,
    apply_append,
    plan_append,
    rehearse,
)
from kafkalog_cli.actions.append.reading import (
    LineFormat,
    NewRecord,
    PieceLines,
    file_pieces,
    line_parser,
    parse_ndjson,
    read_records,
)
from kafkalog_cli.actions.apply_changes import Applied
from kafkalog_cli.actions.partition_facts import topic_id_of
from kafkalog_cli.actions.refusals import Action
from kafkalog_cli.actions.root_state import RootState
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.interruptions import POLL_SECONDS
from kafkalog_cli.cli.log_run import LogRunOptions
from kafkalog_cli.cli.log_writer import Changed, LogWriter
from kafkalog_cli.cli.partition_run import Work
from kafkalog_cli.errors import BadInput, NotChanged, Refused, UnsupportedFormat, UsageError
from kafkalog_cli.format.compression import Codec, compress
from kafkalog_cli.format.kafka_uuid import ZERO_UUID, canonical_uuid
from kafkalog_cli.output.append_json import APPENDED, appended_fields
from kafkalog_cli.output.append_text import append_words
from kafkalog_cli.output.log_change_text import Said, undo_words
from kafkalog_cli.storage.appending.new_partition import make_partition, remove_partition
from kafkalog_cli.storage.manifest import RunInfo
from kafkalog_cli.storage.names import DirectoryKind, FileKind, segment_file_name
from kafkalog_cli.storage.partition import Partition, directory_name, open_partition

_STDIN = "-"
_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class AppendOptions(LogRunOptions):
    """The command line of append, as it is."""

    files: tuple[str, ...] = field(kw_only=True)
    is_ndjson: bool = field(kw_only=True)
    key_separator: str | None = field(kw_only=True)
    codec: str = field(kw_only=True)
    level: int | None = field(kw_only=True)
    batch_bytes: int = field(kw_only=True)
    leader_epoch: int | None = field(kw_only=True)
    producer_id: int | None = field(kw_only=True)
    producer_epoch: int = field(kw_only=True)
    first_sequence: int | None = field(kw_only=True)
    transaction: str | None = field(kw_only=True)
    coordinator_epoch: int = field(kw_only=True)
    topic_id: str | None = field(default=None, kw_only=True)

    def check(self) -> None:
        """Raises UsageError for what contradicts itself."""
        if self.transaction is not None and self.producer_id is None:
            raise UsageError(reason="--transaction needs a --producer-id")
        if self.first_sequence is not None and self.producer_id is None:
            raise UsageError(reason="--first-sequence needs a --producer-id")
        if self.key_separator is not None and self.is_ndjson:
            raise UsageError(reason="--key-separator is for --input lines")
        if self.key_separator == "":
            raise UsageError(reason="--key-separator is empty")
        if self.topic_id is not None and canonical_uuid(self.topic_id) in (None, ZERO_UUID):
            raise UsageError(reason=f"--topic-id: {self.topic_id} is no topic id")
        try:
            compress(Codec[self.codec.upper()], b"", level=self.level)
        except ValueError as error:
            raise UsageError(reason=f"--compression-level: {error}") from error


class AppendRun(LogWriter[AppendPlan]):
    """Appends to a partition what the files hold."""

    verb = "append"
    action = Action.APPEND
    schema = APPENDED

    def __init__(self, environment: Environment, options: AppendOptions) -> None:
        options.check()
        super().__init__(environment, options)
        self._appending = options
        self._made: str | None = None
        self.counts.update(records=0, batches=0, appended_bytes=0)

    def target(self, path: str) -> list[Partition]:
        """The partition that `path` and the selection name; one that is not there yet is made when it is its turn.

        Raises as `one` does, UsageError for a --topic-id where nothing is to be made.
        """
        full_path = os.path.abspath(path)  # noqa: PTH100
        name, above = directory_name(path), self._fs.status(full_path.rpartition("/")[0] or "/")
        is_new = self._fs.status(path) is None and name.kind is DirectoryKind.PARTITION
        if not is_new or above is None or not above.is_directory:
            if self._appending.topic_id is not None:
                raise UsageError(reason=f"--topic-id is for a partition that is to be made, not for {path}")
            return self.one(path)
        self._made = full_path
        self._named = frozenset({full_path})
        return [Partition(full_path, name, ())]

    def partition(self, work: Work) -> Changed[AppendPlan]:
        """See PartitionRun."""
        if self._made is None:
            return self._append_to(work)
        if self._writing.dry_run:
            raise NotChanged(path=self._made, reason="it is not there yet, and a dry run makes none")
        make_partition(work.fs, self._made, self._topic_id(work), self._clock.now_ms)
        try:
            work.partition = open_partition(work.fs, self._made)
            changed = self._append_to(work)
        except (BadInput, Refused, UnsupportedFormat):
            remove_partition(work.fs, self._made)
            raise
        work.tell("new-partition", "this partition was made; undo leaves it there, empty", self._made)
        return changed

    def _topic_id(self, work: Work) -> str | None:
        """That of the command line, or of the metadata log."""
        if self._appending.topic_id is not None:
            return canonical_uuid(self._appending.topic_id)
        metadata = self._settings.metadata(work.log_dir)
        topic = None if metadata is None else metadata.topics.get(work.partition.topic)
        return None if topic is None else topic.topic_id

    def _append_to(self, work: Work) -> Changed[AppendPlan]:
        plan = self.plan(work, self.begin(work))
        if self._writing.dry_run and not plan.is_refused:
            return Changed(plan.after(rehearse(plan, self._records(), self._request())), None)
        return self.carry_out(work, plan)

    def plan(self, work: Work, root: RootState) -> AppendPlan:
        """See LogWriter."""
        plan = plan_append(work.fs, work.partition, root, self._request())
        last = work.partition.segments[-1].base_offset if work.partition.segments else 0
        log_name = segment_file_name(last, FileKind.LOG)
        is_new, topic_id = self._made is not None, topic_id_of(work.fs, work.partition)
        self.check(work, in_place=frozenset({log_name}), makes_directory=is_new, topic_id=topic_id)
        return plan

    def apply(self, work: Work, plan: AppendPlan, run: RunInfo) -> Changed[AppendPlan]:
        """See LogWriter."""
        result = apply_append(
            *(work.fs, plan, self._records(), run, self._request()),
            held=work.lock,
            may_go_on=lambda: not self._interruptions.are_asked_for,
        )
        return Changed(plan.after(result.appended, is_cut_short=self._interruptions.are_asked_for), result.done)

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

    def _records(self) -> Iterator[NewRecord | None]:
        """What all files hold. Raises BadInput, and as `open_read` does."""
        options = self._appending
        separator = None if options.key_separator is None else options.key_separator.encode("utf-8", "surrogateescape")
        parse = parse_ndjson if options.is_ndjson else line_parser(LineFormat(separator))
        for path in options.files:
            if path == _STDIN:
                yield from read_records(PieceLines(self._stdin()), "standard input", parse)
            else:
                with self._environment.fs.open_read(path) as file:
                    yield from read_records(PieceLines(file_pieces(file)), path, parse)

    def _stdin(self) -> Iterator[bytes]:
        """What comes on standard input, until its end or an interruption."""
        stream = self._environment.stdin
        read: Any = getattr(stream, "read1", stream.read)
        while not self._interruptions.are_asked_for:
            if _has_descriptor(stream) and not select.select([stream], [], [], POLL_SECONDS)[0]:
                yield b""  # nothing yet; what came before may have to be written
                continue
            piece = read(_READ_BYTES)
            if not piece:
                return
            yield piece

    def _request(self) -> AppendRequest:
        options = self._appending
        return AppendRequest(
            self._clock.now_ms,
            self._settings,
            kernels=self._environment.kernels,
            codec=Codec[options.codec.upper()],
            level=options.level,
            batch_bytes=options.batch_bytes,
            leader_epoch=options.leader_epoch,
            producer_id=options.producer_id,
            producer_epoch=options.producer_epoch,
            first_sequence=options.first_sequence,
            transaction=options.transaction,
            coordinator_epoch=options.coordinator_epoch,
            clock=lambda: int(self._environment.clock() * 1000),
        )


def _has_descriptor(stream: Any) -> bool:
    try:
        return int(stream.fileno()) >= 0
    except (AttributeError, OSError, ValueError):
        return False

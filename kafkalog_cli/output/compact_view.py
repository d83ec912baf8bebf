"""The View of compact: a line per partition, or a table for a dry run of several partitions."""

from collections.abc import Iterable
from typing import Annotated, TypedDict

from kafkalog_cli.broker.cleaning.choosing import CheckpointState, UpTo
from kafkalog_cli.broker.cleaning.explaining import Reason
from kafkalog_cli.errors import KafkalogError, counted
from kafkalog_cli.ops.compact.erasing import KeyFile
from kafkalog_cli.ops.compact.plan import Choice, CompactPlan, RecordPlace
from kafkalog_cli.ops.session.observer import Note
from kafkalog_cli.ops.session.work import Changed
from kafkalog_cli.output.compact_text import (
    causes_lines,
    compaction_undo_words,
    compaction_words,
    consent_words,
    dirt_lines,
    dry_run_table,
    erasure_lines,
    explain_lines,
)
from kafkalog_cli.output.human import write_table
from kafkalog_cli.output.log_plan_view import PlanObject, changed_lines, plan_object, remark_lines
from kafkalog_cli.output.ndjson import NULL_IS_ZERO, NUMBER_OF, From, NotRequired, ObjectKind, PathText, same_fields
from kafkalog_cli.output.retain_view import RemovalObject, unlinked
from kafkalog_cli.output.stream import ResultStream, printable
from kafkalog_cli.output.views import View, change_counts, change_has_work, change_is_idle


class CausesObject(TypedDict):
    """Removed records by cause."""

    erased: Annotated[int, "their keys are erased"]
    keyless: Annotated[int, "they have no key"]
    expired: Annotated[int, "they are tombstones whose delete horizon is over"]
    superseded: Annotated[int, "a later record has the same key"]
    aborted: Annotated[int, "their transactions were aborted"]
    control: Annotated[int, "they are control records whose transactions have no record left"]


class EstimateObject(TypedDict):
    """The counts of a cleaning, found without writing."""

    records: Annotated[int, "records that the cleaning reads, with control records"]
    gone: Annotated[int, "records that it removes"]
    keyless: Annotated[int, From("causes.keyless"), "removed records without a key"]
    causes: Annotated[CausesObject, "the removed records by cause"]


class CleanedSegmentsObject(TypedDict):
    """Base offsets of segments before and after a cleaning."""

    sources: list[int]
    made: Annotated[list[int], "of the segments that were made from them"]


class CompactionOutcomeObject(TypedDict):
    """The result of a cleaning."""

    end_offset: Annotated[int, "the log is clean below this offset"]
    passes: Annotated[int, "the number of cleaning passes, 1"]
    segments: list[CleanedSegmentsObject]
    records_read: Annotated[int, From("counts.records_read")]
    records_kept: Annotated[int, From("counts.records_kept")]
    records_without_key: Annotated[int, From("counts.causes.keyless"), "removed records without a key"]
    causes: Annotated[CausesObject, From("counts.causes"), "the removed records by cause"]
    bytes_read: Annotated[int, From("counts.bytes_read"), "sizes of the logs before"]
    bytes_written: Annotated[int, From("counts.bytes_written"), "sizes of the logs after"]
    batches_copied: Annotated[int, From("counts.batches_copied"), "batches that stay byte for byte"]
    batches_rewritten: Annotated[
        int,
        From("counts.batches_rewritten"),
        "batches that lose records, or get a delete horizon or a newer format",
    ]
    batches_emptied: Annotated[int, From("counts.batches_emptied"), "batches that stay without records"]
    batches_gone: Annotated[int, From("counts.batches_gone"), "removed batches"]
    lost_ends: Annotated[
        int,
        From("counts.lost_ends"),
        "removed messages of old formats at the end of a round, where a broker's cleaner fails",
    ]


class ExplainedRecordObject(TypedDict):
    """A record of the explained key, and whether a cleaning removes it."""

    base_offset: Annotated[int, "of its segment"]
    offset: int
    timestamp_ms: Annotated[int, "-1: none"]
    value_bytes: Annotated[int | None, "the size of the value; null: the record is a tombstone"]
    reason: Reason
    by_offset: Annotated[int | None, "the later record that supersedes it"]
    due_ms: Annotated[int | None, "from then on a cleaning removes the tombstone; null: no cleaning has set it"]
    goes: Annotated[bool, From("reason.goes"), "whether it is removed"]


class ErasedKeyObject(TypedDict):
    """A key with records in the cleaned part of the log."""

    line: Annotated[int, "the line of the key in the file of keys, from 1 on"]
    records: int
    offsets: Annotated[list[int], "of the first 1000 records"]
    last_offset: int | None


class LogDigestObject(TypedDict):
    """A log of the partition, read to its end."""

    name: str
    size_bytes: int
    sha256: Annotated[str, "of all its bytes, in hexadecimal"]
    records: Annotated[int, "records with one of the keys"]


class HolderObject(TypedDict):
    """A file that contains records of the keys, or may contain them."""

    path: PathText
    place: RecordPlace
    records: int
    unread: Annotated[str | None, "why it could not be read to its end: it may contain more records"]


class ErasureObject(TypedDict):
    """The proof of an erasure."""

    replication: Annotated[str, "the known facts about other replicas"]
    keys_wanted: Annotated[int, From("wanted"), "the number of requested keys"]
    keys: Annotated[list[ErasedKeyObject], "keys with records in the cleaned part of the log"]
    before: Annotated[list[LogDigestObject], "every log of the partition"]
    after: Annotated[list[LogDigestObject] | None, "every log after the erasure; null if nothing was erased"]
    holders: Annotated[list[HolderObject], "files that contain records of the keys afterwards"]
    lines_without_record: Annotated[list[int], "the lines of keys that no file of the partition contains"]


class RetentionRunObject(TypedDict):
    """The run of a retention that follows a cleaning."""

    run: Annotated[str | None, "the run that removed segments; undo it first; null if nothing was removed"]


class CompactionRetentionObject(RetentionRunObject, RemovalObject):
    """The retention of a cleaned log."""


class CompactionObject(PlanObject):
    """The result of compact for a partition, or of its dry run."""

    choice: Annotated[Choice, "whether the log is cleaned, and why; the first five: it is cleaned"]
    first_dirty_offset: Annotated[
        int | None,
        From("dirt.first_dirty"),
        "the log is clean below it; null if unknown: refused, damaged, not compacted, no segment",
    ]
    first_uncleanable_offset: Annotated[
        int | None, From("dirt.first_uncleanable"), "the end of the cleanable part, the base offset of a segment"
    ]
    up_to: Annotated[UpTo | None, From("dirt.up_to"), "the limit that ends the cleanable part"]
    cleaner_checkpoint: Annotated[
        CheckpointState | None, From("dirt.checkpoint"), "whether the line in cleaner-offset-checkpoint is used"
    ]
    clean_bytes: Annotated[int | None, From("dirt.clean_bytes"), "of segments that begin before the first dirty offset"]
    dirty_bytes: Annotated[int | None, From("dirt.cleanable_bytes"), "of segments with cleanable offsets"]
    dirty_ratio: Annotated[float | None, From("dirt.ratio"), "dirty bytes divided by the sum of both"]
    compaction_delay_ms: Annotated[
        int | None, From("dirt.delay_ms"), "the time since max.compaction.lag.ms was exceeded"
    ]
    groups: Annotated[list[list[int]], "base offsets of segments that become one segment"]
    rolls: Annotated[bool, "whether the active segment has records to erase and is rolled first"]
    delay_ms: Annotated[int, "how long the replaced files stay as .deleted"]
    unlinked_files: Annotated[int, From("due.files"), NUMBER_OF, "files of earlier runs that were due"]
    unlinked_bytes: Annotated[int, From("due.size_bytes"), NULL_IS_ZERO, "their sizes"]
    estimate: Annotated[EstimateObject | None, "with --estimate or --erase-keys"]
    outcome: Annotated[CompactionOutcomeObject | None, "null if nothing was cleaned"]
    explained: NotRequired[Annotated[list[ExplainedRecordObject], "the records of the key; only with --explain"]]
    erasure: NotRequired[Annotated[ErasureObject, "only with --erase-keys"]]
    retention: Annotated[
        CompactionRetentionObject | None,
        "with cleanup.policy=compact,delete: retention of the cleaned log, in a dry run of the log as it is",
    ]


COMPACTION = ObjectKind("kafkalog.compaction/1", CompactionObject)

_NAMES = (
    *("changed", "cleaned", "records_gone", "bytes_read", "bytes_written", "unlinked_files", "unlinked_bytes"),
    *("removed_segments", "removed_bytes"),
)


def compact_view(
    *, explains: bool = False, erases: bool = False, has_table: bool = False
) -> View[Changed[CompactPlan]]:
    """Return the View of compact.

    `explains`: the fate of a key's records is shown; `erases`: keys are erased; `has_table`: a table at the end.
    """
    rows: list[CompactPlan] = []

    def lines(changed: Changed[CompactPlan]) -> Iterable[str]:
        """Return a partition's lines; none for a topic that is not compacted, unless it was named or has remarks."""
        plan = changed.plan
        if plan.choice is Choice.NOT_COMPACTED and not plan.remarks and not changed.is_named:
            return
        if has_table:
            rows.append(plan)
            for remark in plan.remarks:
                for line in remark_lines(plan.path, remark):
                    yield f"{printable(plan.path)}:\n{line}"
            return
        undo = compaction_undo_words(plan, changed.done)
        yield from changed_lines(changed, compaction_words(plan), undo, lists_changes=not explains)
        yield from dirt_lines(plan)
        if changed.is_dry_run or erases:
            yield from causes_lines(plan)
        yield from explain_lines(plan)
        yield from erasure_lines(plan)

    def write_rows(out: ResultStream) -> None:
        if rows:
            write_table(out, dry_run_table(rows))

    return View(
        COMPACTION,
        _compaction,
        lines,
        (*_NAMES, *(("records_erased",) if erases else ())),
        lambda changed: change_counts(changed, _counts(changed.plan)),
        change_is_idle,
        lambda plan: f"Compact {printable(plan.path)}: {consent_words(plan)}",
        write_rows,
        change_has_work,
    )


class ErasureWatch:
    """The Listener that finds out which keys no partition has a record of."""

    def __init__(self) -> None:
        self._missing: set[int] | None = None

    def show(self, result: Changed[CompactPlan]) -> None:
        """See Listener."""
        erasure = result.plan.erasure
        if erasure is not None and not result.plan.is_refused:
            lines = set(erasure.lines_without_record)
            self._missing = lines if self._missing is None else self._missing & lines

    def fail(self, path: str | None, error: KafkalogError) -> None:
        """See Listener."""

    def note_of_missing(self, keys: KeyFile, path: str) -> Note | None:
        """Return a warning with the keys that are in no record; None if there are none, or no partition was read."""
        if not self._missing:
            return None
        missing = [f"line {line}: {key}" for line, key in keys.shown() if line in self._missing]
        more = f", and {len(missing) - _MOST_MISSING} more" if len(missing) > _MOST_MISSING else ""
        shown = ", ".join(missing[:_MOST_MISSING])
        what = f"{len(missing)} of {counted(len(keys.shown()), 'key')} in no record: {shown}{more}"
        why = "Quotes and blanks are part of a key, and --input has to fit the file"
        return Note("keys", f"{what}. {why}", path)


_MOST_MISSING = 1000


def _compaction(changed: Changed[CompactPlan]) -> CompactionObject:
    """Return the fields: dirtiness, whether and why the log is cleaned, the estimate, and the outcome."""
    plan = changed.plan
    retention = plan.retention and same_fields(CompactionRetentionObject, plan.retention, run=plan.retention_run)
    return plan_object(CompactionObject, changed, retention=retention)


def _counts(plan: CompactPlan) -> dict[str, int]:
    found = unlinked(plan.due)
    if plan.outcome is not None:
        counts = plan.outcome.counts
        found["cleaned"] = 1
        found["records_gone"] = counts.records_read - counts.records_kept
        found["bytes_read"], found["bytes_written"] = counts.bytes_read, counts.bytes_written
    if plan.erasure is not None and plan.erasure.after is not None:
        found["records_erased"] = sum(key.records for key in plan.erasure.keys)
    if plan.retention is not None:
        found["removed_segments"] = len(plan.retention.removed)
        found["removed_bytes"] = plan.retention.removed_bytes
    return found

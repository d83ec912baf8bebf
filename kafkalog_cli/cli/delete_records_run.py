"""One run of `kafkalog delete-records`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kafkalog_cli.actions.apply_changes import Applied
from kafkalog_cli.actions.delete_records import (
    DeleteRecordsPlan,
    DeleteRecordsRequest,
    apply_delete_records,
    plan_delete_records,
)
from kafkalog_cli.actions.refusals import Action
from kafkalog_cli.actions.root_state import RootState
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.log_run import LogRunOptions
from kafkalog_cli.cli.log_writer import Changed, LogWriter, delay_of
from kafkalog_cli.cli.partition_run import Work
from kafkalog_cli.output.log_change_json import DELETED_RECORDS, deleted_records_fields
from kafkalog_cli.output.log_change_text import Said, deleted_records_words, undo_words
from kafkalog_cli.storage.changing.manifest import RunInfo


@dataclass(frozen=True, slots=True)
class DeleteRecordsOptions(LogRunOptions):
    """The command line of delete-records, as it is."""

    before_offset: int = field(kw_only=True)
    delay: str | None = field(default=None, kw_only=True)
    keep: bool = field(default=False, kw_only=True)


class DeleteRecordsRun(LogWriter[DeleteRecordsPlan]):
    """Deletes the first records of a partition."""

    verb = "delete-records"
    warns_first = True
    action = Action.DELETE_RECORDS
    schema = DELETED_RECORDS

    def __init__(self, environment: Environment, options: DeleteRecordsOptions) -> None:
        super().__init__(environment, options)
        self._deleting = options
        self._delay_ms = delay_of(options.delay, keeps=options.keep)
        self.counts.update(removed_segments=0, removed_bytes=0)

    def plan(self, work: Work, root: RootState) -> DeleteRecordsPlan:
        """See LogWriter."""
        self.check(work)
        return plan_delete_records(work.fs, work.partition, root, self._deleting.before_offset, self._request())

    def apply(self, work: Work, plan: DeleteRecordsPlan, run: RunInfo) -> Changed[DeleteRecordsPlan]:
        """See LogWriter."""
        return Changed(plan, apply_delete_records(work.fs, plan, run, self._request(), held=work.lock))

    def said(self, plan: DeleteRecordsPlan, done: Applied | None) -> Said:
        """See LogWriter."""
        delay_ms = plan.delay_ms if plan.removed and not self._deleting.keep else None
        return Said(deleted_records_words(plan), undo_words(plan, done, delay_ms=delay_ms))

    def drops(self, plan: DeleteRecordsPlan) -> bool:
        """See LogWriter."""
        return plan.has_work

    def fields(self, plan: DeleteRecordsPlan) -> dict[str, Any]:
        """See LogWriter."""
        return deleted_records_fields(plan)

    def count(self, plan: DeleteRecordsPlan, done: Applied | None) -> None:
        """See LogWriter."""
        del done
        self.counts["removed_segments"] += len(plan.removed)
        self.counts["removed_bytes"] += plan.removed_bytes

    def _request(self) -> DeleteRecordsRequest:
        return DeleteRecordsRequest(
            self._clock.now_ms,
            self._settings,
            kernels=self._environment.kernels,
            delay_ms=self._delay_ms,
            keeps=self._deleting.keep,
        )

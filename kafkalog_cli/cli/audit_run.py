"""One run of `kafkalog audit`."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkalog_cli import __version__
from kafkalog_cli.cli.command_output import CommandOutput
from kafkalog_cli.cli.environment import Environment, now_of, time_of
from kafkalog_cli.disk.named_places import check_named_directory, check_new_file, check_no_stream, new_file
from kafkalog_cli.errors import ExitCode, KafkalogError, UsageError, combined_exit_code
from kafkalog_cli.ops.audit.audit import Audited, Failed
from kafkalog_cli.ops.audit.compare import (
    AuditChange,
    History,
    HistoryRun,
    audit_table,
    changes,
    replaced,
    rows_of,
    run_of,
)
from kafkalog_cli.ops.checks.finding_kinds import Severity
from kafkalog_cli.ops.same_place import check_outside
from kafkalog_cli.ops.session.observer import LockWarnings
from kafkalog_cli.ops.session.work import of_the_system
from kafkalog_cli.ops.verify.task import TargetKind, Verification
from kafkalog_cli.output.audit_view import write_audit, write_audited, write_change, write_changes
from kafkalog_cli.output.ndjson import JsonLines
from kafkalog_cli.output.progress import Progress
from kafkalog_cli.spark.audit_job import Audit, AuditRequest
from kafkalog_cli.spark.starting import need_pyspark

if TYPE_CHECKING:
    from kafkalog_cli.cli.audit import AuditOptions

PREVIOUS = "previous"


class AuditRun:
    """Audits paths; a failure ends only its path or partition."""

    def __init__(self, environment: Environment, options: AuditOptions) -> None:
        self._environment = environment
        self._options = options
        self._as_json = options.output_format.is_json
        self._output = CommandOutput(environment, as_json=self._as_json)
        self._messages = self._output.messages
        self._began = environment.clock()

    def run(self) -> int:
        """Audit the paths; return the exit code. Raises UsageError, and KafkalogError without Spark."""
        environment, options = self._environment, self._options
        selection = options.topics.selection
        sessions = options.spark.sessions(environment, as_json=self._as_json)
        if not options.paths:
            raise UsageError(reason="audit needs a LOG_DIR; see kafkalog audit --help")
        if options.history is None and (options.compare is not None or options.replaced):
            raise UsageError(reason="--compare and --replaced need --history DIR")
        need_pyspark()
        now_ms = environment.now_ms() if options.now is None else now_of(environment, options.now)
        request = AuditRequest(
            selection, options.level, now_ms, options.metadata, options.decoding.limits,
            options.top if options.keys else None,
        )  # fmt: skip
        audit = Audit(environment.fs, options.paths, request)
        run = run_of(now_ms, platform.node(), __version__)
        history = self._history(audit)
        until_ms = self._compared_ms(now_ms)
        if history is not None and not options.replaced:
            audit.refuse(_replaced(audit, history, run))
        before = None if history is None or until_ms is None else history.before(audit.log_dirs, run.host, until_ms)
        with Progress(environment.stderr, "audit", as_json=self._as_json, clock=environment.clock) as progress:
            audited = audit.run(sessions, progress)
        failure = self._keep(audited, run, history)
        found = None if before is None else changes(rows_of(audited, run), before)
        return int(self._tell(audited, found, failure))

    def _history(self, audit: Audit) -> History | None:
        """Return the history; check that no output is in a log directory. Raises UsageError, Refused."""
        fs, options = self._environment.fs, self._options
        if options.output is not None:
            check_outside(fs, options.output, "the output", audit.partitions)
            check_new_file(fs, options.output, "audit")
        if options.history is None:
            return None
        check_outside(fs, options.history, "the history", audit.partitions)
        check_named_directory(fs, options.history)
        check_no_stream(options.history)
        return History(fs, os.path.abspath(options.history), options.topics.selection.text)  # noqa: PTH100

    def _compared_ms(self, now_ms: int) -> int | None:
        """Return the latest time of the run to compare with; None for no comparison. Raises UsageError."""
        wanted = self._options.compare
        if wanted is None or wanted == PREVIOUS:
            return None if wanted is None else now_ms
        return time_of(self._environment, wanted, str(now_ms))

    def _keep(self, audited: Sequence[Audited], run: HistoryRun, history: History | None) -> KafkalogError | None:
        """Write the history and the output; return an error instead of raising it, so the results are still printed."""
        try:
            if history is not None:
                history.append(audited, run)
            if self._options.output is not None:
                self._write_file(audited, run, self._options.output)
        except KafkalogError as error:
            return error
        return None

    def _write_file(self, audited: Sequence[Audited], run: HistoryRun, output: str) -> None:
        import pyarrow.parquet as pq

        path = os.path.abspath(output)  # noqa: PTH100
        try:
            with new_file(self._environment.fs, path) as file:
                pq.write_table(audit_table(audited, run), file, compression="zstd")
        except OSError as error:
            raise of_the_system(output, error) from error

    def _tell(
        self, audited: Sequence[Audited], found: Sequence[AuditChange] | None, failure: KafkalogError | None
    ) -> ExitCode:
        out, quiet = self._output.out, self._options.quiet
        locks = LockWarnings(self._environment.fs, self._messages.report)
        for one in audited:
            if isinstance(one.result, Failed):
                self._messages.exception(one.result.error)
            elif one.result.target is TargetKind.PARTITION and not quiet:  # a log directory has a finding for its lock
                locks.about_partitions(one.path)
        code = combined_exit_code([one.exit_code for one in audited]) if failure is None else failure.exit_code
        counts = {}
        if self._output.lines is not None:
            counts = self._write_objects(self._output.lines, audited, found or ())
        else:
            write_audit(out, audited, self._environment.clock() - self._began, quiet=quiet)
            if found is not None:
                write_changes(out, found, quiet=quiet)
        self._output.end(code, **counts)
        if found is not None and not found:
            self._messages.warn("nothing-before", "the history has no run to compare these directories with")
        if failure is not None:
            self._messages.exception(failure)
        return code

    def _write_objects(
        self, lines: JsonLines, audited: Sequence[Audited], found: Sequence[AuditChange]
    ) -> dict[str, int]:
        """Write the objects; return the counts of the summary."""
        for one in audited:
            if not self._options.quiet or one.exit_code is not ExitCode.OK:
                write_audited(lines, one)
        for change in found:
            write_change(lines, change)
        statistics = [one.statistics for one in audited if one.statistics is not None]
        checked = [one.result for one in audited if isinstance(one.result, Verification)]
        return {
            "partitions": len(statistics),
            "failures": len(audited) - len(checked),
            "bytes": sum(one.bytes for one in statistics),
            "records": sum(one.records or 0 for one in statistics),
            **{f"{one.value}s": sum(result.count(one) for result in checked) for one in Severity},
        }


def _replaced(audit: Audit, history: History, run: HistoryRun) -> dict[str, str]:
    """Return the replaced log directories, each with a reason. Raises UnsupportedFormat."""
    known = history.before(audit.log_dirs, run.host, run.time_ms)
    told = {}
    for path, (log_dir, count) in audit.log_dirs.items():
        reason = replaced(log_dir, count, known[path]) if path in known else ""
        if reason:
            told[path] = f"{reason}: is its disk mounted? --replaced accepts the present contents"
    return told

"""One run of `kafkalog audit`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafkalog_cli.actions.audit.audit import Audited
from kafkalog_cli.actions.selection import Selection
from kafkalog_cli.actions.verify.finding_kinds import Severity
from kafkalog_cli.actions.verify.partition import Level, Target, Verification
from kafkalog_cli.actions.verify.verify import Failed
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.lock_warnings import LockWarnings
from kafkalog_cli.cli.options import time_of
from kafkalog_cli.errors import ExitCode, UsageError, combined_exit_code
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.output.audit_json import write_audited
from kafkalog_cli.output.audit_text import write_audit
from kafkalog_cli.output.messages import Messages
from kafkalog_cli.output.ndjson import JsonLines
from kafkalog_cli.output.stream import ResultStream
from kafkalog_cli.spark.audit import Audit, AuditRequest
from kafkalog_cli.spark.java import need_pyspark
from kafkalog_cli.spark.sessions import command_session


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """The options of one run."""

    selection: Selection
    level: Level
    metadata: str | None
    now: str | None
    limits: Limits
    quiet: bool
    json: bool
    master: str
    settings: Mapping[str, str]
    top: int | None


class AuditRun:
    """Audits paths; what fails ends only its path or partition."""

    def __init__(self, environment: Environment, options: AuditOptions) -> None:
        self._environment = environment
        self._options = options
        self._out = ResultStream(environment.stdout)
        self._messages = Messages(environment.stderr, as_json=options.json)

    def run(self, paths: list[str]) -> int:
        """Audit what `paths` name; the exit code. Raises UsageError, and KafkalogError without Spark."""
        if not paths:
            raise UsageError(reason="audit needs a LOG_DIR; see kafkalog audit --help")
        environment, options = self._environment, self._options
        need_pyspark()
        now_ms = environment.now_ms() if options.now is None else time_of(environment, options.now, None)
        request = AuditRequest(options.selection, options.level, now_ms, options.metadata, options.limits, options.top)
        audit = Audit(environment.fs, paths, request)
        audited = audit.run(lambda: command_session(options.master, settings=options.settings))
        return int(self._tell(audited))

    def _tell(self, audited: Sequence[Audited]) -> ExitCode:
        locks = LockWarnings(self._environment.fs, self._messages)
        for one in audited:
            if isinstance(one.result, Failed):
                self._messages.exception(one.result.error)
            elif one.result.target is Target.PARTITION:  # of a log directory a finding tells
                locks.about_partition(one.path)
        code = combined_exit_code([one.exit_code for one in audited])
        if self._options.json:
            self._write_objects(audited, code)
        else:
            write_audit(self._out, audited, quiet=self._options.quiet)
        self._out.flush()
        return code

    def _write_objects(self, audited: Sequence[Audited], code: ExitCode) -> None:
        lines = JsonLines(self._out)
        for one in audited:
            if not self._options.quiet or one.exit_code is not ExitCode.OK:
                write_audited(lines, one)
        statistics = [one.statistics for one in audited if one.statistics is not None]
        checked = [one.result for one in audited if isinstance(one.result, Verification)]
        lines.summary(
            code,
            partitions=len(statistics),
            failures=len(audited) - len(checked),
            bytes=sum(one.bytes for one in statistics),
            records=sum(one.records or 0 for one in statistics),
            **{f"{one.value}s": sum(result.count(one) for result in checked) for one in Severity},
        )

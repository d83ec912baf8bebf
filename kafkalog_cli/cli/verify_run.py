"""One run of `kafkalog verify`: checks and prints each target, and combines the exit codes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kafkalog_cli.actions.engine import THREADS, Engine
from kafkalog_cli.actions.reports.segment_reports import ReadContext
from kafkalog_cli.actions.selection import Selection
from kafkalog_cli.actions.session.lock_warnings import LockWarnings
from kafkalog_cli.actions.verify.against import compare
from kafkalog_cli.actions.verify.finding_kinds import Severity
from kafkalog_cli.actions.verify.partition import Level, TargetKind, Verification
from kafkalog_cli.actions.verify.replica_pairs import paired, side_of
from kafkalog_cli.actions.verify.verify import (
    Failed,
    Result,
    Verifier,
    VerifyRequest,
    comparison_of,
    left_alone,
)
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.options import default_jobs, now_of
from kafkalog_cli.errors import ExitCode, UsageError, combined_exit_code
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.output.messages import Messages
from kafkalog_cli.output.ndjson import JsonLines
from kafkalog_cli.output.progress import Progress
from kafkalog_cli.output.stream import ResultStream
from kafkalog_cli.output.verify_json import FINDING, VERIFICATION, finding_object, verification_object
from kafkalog_cli.output.verify_text import verification_lines
from kafkalog_cli.storage.settings.topic_config import parse_topic_settings, read_broker_properties


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """The options of one run. `jobs` 0: the default of `jobs_at`."""

    selection: Selection
    level: Level
    against: str | None
    metadata: str | None
    now: str | None
    jobs: int
    limits: Limits
    quiet: bool
    json: bool
    engine: Engine = THREADS
    config: Sequence[str] = ()
    broker_config: str | None = None


def jobs_at(level: Level) -> int:
    """Return the number of partitions at a time: one per core, at level deep half as many.

    At level deep, each partition's records are read in threads of their own.
    """
    return max(1, default_jobs() // 2) if level is Level.DEEP else default_jobs()


@dataclass(slots=True)
class _Counts:
    targets: int = 0
    failures: int = 0
    corruptions: int = 0
    warnings: int = 0
    infos: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0


class VerifyRun:
    """Checks paths in order; a failure ends only its path or partition."""

    def __init__(self, environment: Environment, options: VerifyOptions) -> None:
        self._environment = environment
        self._options = options
        self._out = ResultStream(environment.stdout)
        self._messages = Messages(environment.stderr, as_json=options.json)
        self._json = JsonLines(self._out) if options.json else None
        self._locks = LockWarnings(environment.fs, self._messages.report)
        self._codes: list[ExitCode] = []
        self._counts = _Counts()
        self._erase: Callable[[], None] = lambda: None

    def run(self, paths: list[str]) -> int:
        """Check the `paths`; return the exit code."""
        if not paths:
            raise UsageError(reason="verify needs a PATH; see kafkalog verify --help")
        environment, options = self._environment, self._options
        now_ms = environment.now_ms() if options.now is None else now_of(environment, options.now)
        jobs = options.jobs or jobs_at(options.level)
        read_context = ReadContext(environment.fs, options.limits, environment.kernels, environment.sleep)
        progress = Progress(environment.stderr, "verify", as_json=options.json)
        self._erase = progress.erase
        broker = options.broker_config
        request = VerifyRequest(
            options.selection, options.level, now_ms, options.metadata, jobs, progress, options.engine,
            config=parse_topic_settings(options.config),
            broker_properties={} if broker is None else read_broker_properties(environment.fs, broker),
        )  # fmt: skip
        if options.against is not None:
            self._compare(read_context, request, paths, options.against)
        else:
            for result in Verifier(read_context, request).run(paths):
                self._show(result)
        progress.erase()
        code = combined_exit_code(self._codes)
        if self._json is not None:
            self._json.summary(code, **{name: getattr(self._counts, name) for name in _Counts.__slots__})
        self._out.flush()
        return code

    def _compare(self, read_context: ReadContext, request: VerifyRequest, paths: list[str], against: str) -> None:
        """Check both sides, and compare each partition with its replica on the other side."""
        ours = side_of(read_context.fs, paths, request.selection)
        theirs = side_of(read_context.fs, [against], request.selection)
        found = paired(ours, theirs)
        verified: set[str] = set()
        verifiers = []
        for number, (side, other) in enumerate(((ours, theirs), (theirs, ours))):
            chosen = found.paths(side, other, number)
            is_whole = chosen == list(side.paths) and not side.is_named
            verifier = Verifier(read_context, request if is_whole else replace(request, selection=Selection()))
            verifiers.append(verifier)
            for result in verifier.run(chosen) if chosen else ():
                self._show(result)
                verified |= {result.path} if isinstance(result, Verification) else set()
        for here, there in found.pairs:
            if {here.path, there.path} <= verified:
                policy = verifiers[0].replica_policy(here).with_other(verifiers[1].replica_policy(there))
                compared = compare(read_context.fs, here, there, read_context.limits, read_context.choice, policy)
                self._show(comparison_of(here, request.level, compared))
        for partition, alone in found.findings_alone():
            self._show(left_alone(partition, request.level, alone))

    def _show(self, result: Result) -> None:
        self._erase()
        if isinstance(result, Failed):
            self._counts.failures += 1
            self._codes.append(result.error.exit_code)
            self._messages.exception(result.error)
            return
        if result.target is TargetKind.PARTITION:  # a log directory has a finding for its lock
            self._locks.about_partition(result.directory)
        self._codes.append(result.exit_code)
        self._count(result)
        if self._json is None:
            for line in verification_lines(result, quiet=self._options.quiet):
                self._out.write(line + "\n")
            return
        found = [one for one in result.findings if not self._options.quiet or one.severity is not Severity.INFO]
        for one in found:
            self._json.object(FINDING, "finding", finding_object(one, result))
        if found or not self._options.quiet:
            self._json.object(VERIFICATION, "verification", verification_object(result))

    def _count(self, result: Verification) -> None:
        counts, totals = self._counts, result.totals
        counts.targets += 1
        counts.corruptions += result.count(Severity.CORRUPTION)
        counts.warnings += result.count(Severity.WARNING)
        counts.infos += result.count(Severity.INFO)
        counts.batches += totals.batches
        counts.records += totals.records
        counts.bytes += totals.bytes

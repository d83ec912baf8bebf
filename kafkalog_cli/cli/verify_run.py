"""One run of `kafkalog verify`: each target verified and printed, the exit code gathered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kafkalog_cli.actions.engine import THREADS, Engine
from kafkalog_cli.actions.reports.segment_reports import Means
from kafkalog_cli.actions.selection import Selection, select_partitions
from kafkalog_cli.actions.verify.against import compare
from kafkalog_cli.actions.verify.finding_kinds import Severity
from kafkalog_cli.actions.verify.partition import Level, Target, Verification
from kafkalog_cli.actions.verify.verify import Failed, Result, Verifier, VerifyRequest, comparison_of
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.lock_warnings import LockWarnings
from kafkalog_cli.cli.options import default_jobs, time_of
from kafkalog_cli.errors import ExitCode, NothingSelected, UsageError, combined_exit_code
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.output.messages import Messages
from kafkalog_cli.output.ndjson import JsonLines
from kafkalog_cli.output.progress import Progress
from kafkalog_cli.output.stream import ResultStream
from kafkalog_cli.output.verify_json import FINDING, VERIFICATION, finding_object, verification_object
from kafkalog_cli.output.verify_text import verification_lines


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """The options of one run. `jobs` 0: as many as there are cores."""

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


def jobs_at(level: Level) -> int:
    """Partitions at a time: one a core, and half as many where each has its records read in threads of its own."""
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
    """Verifies paths in order; what fails ends only its path or partition."""

    def __init__(self, environment: Environment, options: VerifyOptions) -> None:
        self._environment = environment
        self._options = options
        self._out = ResultStream(environment.stdout)
        self._messages = Messages(environment.stderr, as_json=options.json)
        self._json = JsonLines(self._out) if options.json else None
        self._locks = LockWarnings(environment.fs, self._messages)
        self._codes: list[ExitCode] = []
        self._counts = _Counts()
        self._erase: Callable[[], None] = lambda: None

    def run(self, paths: list[str]) -> int:
        """Verify what `paths` name; the exit code."""
        if not paths:
            raise UsageError(reason="verify needs a PATH; see kafkalog verify --help")
        environment, options = self._environment, self._options
        now_ms = environment.now_ms() if options.now is None else time_of(environment, options.now, None)
        jobs = options.jobs or jobs_at(options.level)
        means = Means(environment.fs, options.limits, environment.kernels, environment.sleep)
        progress = Progress(environment.stderr, "verify", as_json=options.json)
        self._erase = progress.erase
        request = VerifyRequest(
            options.selection, options.level, now_ms, options.metadata, jobs, progress, options.engine
        )
        if options.against is not None:
            self._compare(means, request, paths, options.against)
        else:
            for result in Verifier(means, request).run(paths):
                self._show(result)
        progress.erase()
        code = combined_exit_code(self._codes)
        if self._json is not None:
            self._json.summary(code, **{name: getattr(self._counts, name) for name in _Counts.__slots__})
        self._out.flush()
        return code

    def _compare(self, means: Means, request: VerifyRequest, paths: list[str], against: str) -> None:
        """One partition, and another replica of it."""
        partitions = select_partitions(means.fs, paths, request.selection)
        if len(partitions) != 1:
            raise UsageError(reason=f"--against compares one partition, not {len(partitions)}")
        others = select_partitions(means.fs, [against], request.selection)
        same = [other for other in others if (other.topic, other.number) == (partitions[0].topic, partitions[0].number)]
        if len(others) == 1:
            same = others
        if len(same) != 1:
            raise NothingSelected(reason=f"no such partition in {against}")
        here, there = partitions[0], same[0]
        results = [next(Verifier(means, request).run([side.path])) for side in (here, there)]
        for result in results:
            self._show(result)
        if isinstance(results[0], Verification) and isinstance(results[1], Verification):
            compared = compare(means.fs, here, there, means.limits, means.choice)
            self._show(comparison_of(results[0], compared))

    def _show(self, result: Result) -> None:
        self._erase()
        if isinstance(result, Failed):
            self._counts.failures += 1
            self._codes.append(result.error.exit_code)
            self._messages.exception(result.error)
            return
        if result.target is Target.PARTITION:  # of a log directory a finding tells
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

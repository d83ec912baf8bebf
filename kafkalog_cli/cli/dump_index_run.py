"""One run of `kafkalog dump-index`: prints each report, reports failures on stderr, and combines the exit codes."""

from __future__ import annotations

from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.errors import ExitCode, UsageError, combined_exit_code
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.ops.checks.root_reports import Ignored, Trouble, index_reports
from kafkalog_cli.ops.checks.segment_reports import ReadContext
from kafkalog_cli.ops.selection import Selection
from kafkalog_cli.ops.session.observer import LockWarnings
from kafkalog_cli.output.index_view import IndexJson, report_lines
from kafkalog_cli.output.messages import Messages
from kafkalog_cli.output.ndjson import JsonLines
from kafkalog_cli.output.stream import ResultStream


class DumpIndexRun:
    """Prints reports in order; a failure ends only its file or partition."""

    def __init__(self, environment: Environment, *, json: bool) -> None:
        self._environment = environment
        self._out = ResultStream(environment.stdout)
        self._messages = Messages(environment.stderr, as_json=json)
        self._json = IndexJson(JsonLines(self._out)) if json else None

    def run(self, paths: list[str], selection: Selection, limits: Limits) -> int:
        """Report on the files that `paths` select; return the exit code."""
        if not paths:
            raise UsageError(reason="dump-index needs a PATH; see kafkalog dump-index --help")
        read_context = ReadContext(self._environment.fs, limits, self._environment.kernels, self._environment.sleep)
        warnings = LockWarnings(read_context.fs, self._messages.report)
        codes: list[ExitCode] = []
        for reported in index_reports(read_context, paths, selection):
            if isinstance(reported, Ignored):
                self._out.flush()
                self._messages.warn(
                    "ignored",
                    "ignored: it is not an index, a snapshot, a checkpoint or a metadata file",
                    path=reported.path,
                )
                continue
            if isinstance(reported, Trouble):
                self._out.flush()
                self._messages.exception(reported.error)
                codes.append(reported.error.exit_code)
                continue
            warnings.about_partitions(reported.path.rpartition("/")[0] or ".")
            codes.append(reported.exit_code)
            if self._json is not None:
                self._json.report(reported)
            else:
                for line in report_lines(reported):
                    self._out.write(line)
        code = combined_exit_code(codes)
        if self._json is not None:
            self._json.summary(code)
        self._out.flush()
        return int(code)

"""One run of `kafkalog export`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_cli.cli.command_output import CommandOutput
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.errors import DamagedLog, UsageError
from kafkalog_cli.ops.decoding import Decoding
from kafkalog_cli.ops.export_request import ExportRequest, FileFormat
from kafkalog_cli.ops.ranges import Range
from kafkalog_cli.ops.session.observer import LockWarnings
from kafkalog_cli.output.export_view import EXPORTED, ExportLines, export_counts, export_lines
from kafkalog_cli.output.ndjson import JsonLines
from kafkalog_cli.output.progress import Progress
from kafkalog_cli.spark.export.job import Export, ExportResult, exported_partitions
from kafkalog_cli.spark.starting import need_pyspark

if TYPE_CHECKING:
    from kafkalog_cli.cli.export import ExportOptions


class ExportRun:
    """Runs one export."""

    def __init__(self, environment: Environment, options: ExportOptions) -> None:
        self._environment = environment
        self._options = options
        self._as_json = options.report.is_json
        self._output = CommandOutput(environment, as_json=self._as_json)
        self._messages = self._output.messages

    def run(self) -> int:
        """Export; return the exit code.

        Raises as `exported_partitions` and as `Export.run`, but reports DamagedLog itself.
        """
        options, environment = self._options, self._environment
        selection, paths = options.topics.selection, options.paths
        sessions = options.spark.sessions(environment, as_json=self._as_json)
        decoding = options.contents.decoding.absolute()
        if not paths or options.output is None:
            what = "a LOG_DIR" if not paths else "--output DIR"
            raise UsageError(reason=f"export needs {what}; see kafkalog export --help")
        need_pyspark()
        request = self._request(decoding)
        request.check()
        partitions = exported_partitions(environment.fs, paths, selection)
        if not options.quiet:
            LockWarnings(environment.fs, self._messages.report).about_partitions(*(one.path for one in partitions))
        lines = ExportLines() if request.format is FileFormat.JSON else None
        command = [*paths, selection.text, str(request.range), request.codec, options.mode.value]
        export = Export(
            environment.fs, partitions, request, options.output, options.state, environment.now_ms(), lines,
            command,
        )  # fmt: skip
        begun = environment.clock()
        try:
            with Progress(environment.stderr, "export", as_json=self._as_json, clock=environment.clock) as progress:
                result = export.run(sessions, progress)
        except DamagedLog as error:
            step = "nothing was exported; --mode dropmalformed exports what can be read"
            self._messages.tell(type(error).__name__, str(error), exit_code=error.exit_code, next_step=step)
            return int(error.exit_code)
        self._tell(result, environment.clock() - begun)
        return int(result.exit_code)

    def _request(self, decoding: Decoding) -> ExportRequest:
        options = self._options
        wanted = options.range.wanted(self._environment, options.now)
        file_format = FileFormat.JSON if options.file_format.is_json else FileFormat(options.file_format.value)
        return ExportRequest(
            file_format,
            file_format.codecs[0] if options.codec is None else options.codec.value,
            options.by_day,
            wanted or Range(),
            options.isolation,
            options.mode,
            options.include_control,
            options.state is not None,
            decoding,
        )

    def _tell(self, result: ExportResult, seconds: float) -> None:
        for note in (*result.notes, *result.gaps):
            self._messages.warn(note.kind, note.message, path=note.path)
        for damage in result.damage:
            self._messages.exception(damage)
        if result.untold:
            self._messages.tell("more-damage", f"{result.untold} more places are damaged")
        if result.completed:
            message = (
                f"{len(result.completed)} files of an earlier run, which was cut off after its commit, are in place"
            )
            self._messages.warn("completed", message)
        counts = self._write_objects(self._output.lines, result) if self._output.lines is not None else {}
        if not self._as_json and (result.files or not self._options.quiet):
            for line in export_lines(result.files, seconds):
                self._output.out.write(line)
        self._output.end(result.exit_code, **counts)

    def _write_objects(self, lines: JsonLines, result: ExportResult) -> dict[str, int]:
        """Write an object for each file not reported before; return the counts of the summary.

        The files of an earlier, cut-off run come first.
        """
        assert self._options.output is not None
        output = self._options.output.rstrip("/")
        for files, of_earlier_run in ((result.completed, True), (result.files, False)):
            for file in files:
                lines.record(EXPORTED, file, path=f"{output}/{file.path}", of_earlier_run=of_earlier_run)
        counts = export_counts([*result.completed, *result.files])
        damaged, gaps = len(result.damage) + result.untold, len(result.gaps)
        return counts | {"of_earlier_run": len(result.completed), "damaged": damaged, "gaps": gaps}

"""`kafkalog dump-index`: print index and sidecar files, with each entry checked against the log."""

from typing import TYPE_CHECKING

from kafkalog_cli.cli.declared import Command, CommandContext
from kafkalog_cli.cli.environment import Environment, shown_reading_into_files
from kafkalog_cli.cli.groups import DecodingLimits, Topics
from kafkalog_cli.cli.options import Format, OutputFormat, PathsArgument
from kafkalog_cli.errors import ExitCode, UsageError, combined_exit_code
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.output.stream import ResultStream

if TYPE_CHECKING:
    from kafkalog_cli.ops.selection import Selection


def dump_index(
    context: CommandContext,
    *,
    paths: PathsArgument = None,
    topics: Topics,
    output: Format = OutputFormat.TEXT,
    decoding: DecodingLimits,
) -> int:
    """Print indexes, snapshots and checkpoints, each entry checked.

    Entries are compared with the log: each is right, stale, out of order or beyond the end. For an offset index, the
    rule by which it was written is printed: first offsets (before 2.0), append calls (2.0 to 4.0), or per batch (since
    4.1). Metadata files are printed too.
    """
    if not paths:
        raise UsageError(reason="dump-index needs a PATH; see kafkalog dump-index --help")
    return _dump(context.environment, paths, topics.selection, decoding.limits, output)


def _dump(
    environment: "Environment", paths: list[str], selection: "Selection", limits: Limits, output: OutputFormat
) -> int:
    """Print the reports in order; return the exit code. A failure ends only its file or partition."""
    from kafkalog_cli.ops.checks.root_reports import Ignored, Trouble, index_reports
    from kafkalog_cli.ops.checks.segment_reports import ReadContext
    from kafkalog_cli.ops.session.observer import LockWarnings
    from kafkalog_cli.output.index_view import IndexJson, report_lines
    from kafkalog_cli.output.messages import Messages
    from kafkalog_cli.output.ndjson import JsonLines

    out = ResultStream(environment.stdout)
    messages = Messages(environment.stderr, as_json=output.is_json)
    json = IndexJson(JsonLines(out)) if output.is_json else None
    warnings = LockWarnings(environment.fs, messages.report)
    codes: list[ExitCode] = []
    context = ReadContext(environment.fs, limits, environment.kernels, environment.sleep)
    for reported in index_reports(context, paths, selection):
        if isinstance(reported, Ignored):
            out.flush()
            message = "ignored: it is not an index, a snapshot, a checkpoint or a metadata file"
            messages.warn("ignored", message, path=reported.path)
            continue
        if isinstance(reported, Trouble):
            out.flush()
            messages.exception(reported.error)
            codes.append(reported.error.exit_code)
            continue
        warnings.about_partitions(reported.path.rpartition("/")[0] or ".")
        codes.append(reported.exit_code)
        if json is not None:
            json.report(reported)
        else:
            for line in report_lines(reported):
                out.write(line)
    code = combined_exit_code(codes)
    if json is not None:
        json.summary(code)
    out.flush()
    return int(code)


command = Command(dump_index, surroundings=shown_reading_into_files)

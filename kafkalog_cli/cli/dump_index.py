"""`kafkalog dump-index`: print index and sidecar files, with each entry checked against the log."""

from typer import Context

from kafkalog_cli.cli.exit_codes import READ
from kafkalog_cli.cli.groups import DecodingLimits, Topics
from kafkalog_cli.cli.options import Format, OutputFormat, PathsArgument
from kafkalog_cli.cli.shown_reading import shown_reading_into_files
from kafkalog_cli.errors import ExitCode, UsageError, combined_exit_code

EXAMPLES = (
    ("Check the index files of a partition", "kafkalog dump-index /var/lib/kafka/orders-0"),
    ("Print one checkpoint", "kafkalog dump-index /var/lib/kafka/recovery-point-offset-checkpoint"),
)
EXIT_CODES = READ


def dump_index(
    context: Context,
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
    from kafkalog_cli.cli.command_output import CommandOutput
    from kafkalog_cli.ops.checks.root_reports import Ignored, Trouble, index_reports
    from kafkalog_cli.ops.checks.segment_reports import ReadContext
    from kafkalog_cli.ops.session.observer import LockWarnings
    from kafkalog_cli.output.index_view import IndexJson, report_lines

    environment = context.with_resource(shown_reading_into_files(context.obj))
    shown = CommandOutput(environment, as_json=output.is_json)
    json = None if shown.lines is None else IndexJson(shown.lines)
    warnings = LockWarnings(environment.fs, shown.messages.report)
    codes: list[ExitCode] = []
    read_context = ReadContext(environment.fs, decoding.limits, environment.sleep)
    for reported in index_reports(read_context, paths, topics.selection):  # a failure ends only its file or partition
        if isinstance(reported, Ignored):
            shown.out.flush()
            message = "ignored: it is not an index, a snapshot, a checkpoint or a metadata file"
            shown.messages.warn("ignored", message, path=reported.path)
            continue
        if isinstance(reported, Trouble):
            codes.append(shown.fail(reported.error))
            continue
        warnings.about_partitions(reported.path.rpartition("/")[0] or ".")
        codes.append(reported.exit_code)
        if json is not None:
            json.report(reported)
        else:
            for line in report_lines(reported):
                shown.out.write(line)
    return shown.end(combined_exit_code(codes), **({} if json is None else json.counts))

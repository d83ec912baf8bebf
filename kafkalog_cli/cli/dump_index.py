"""`kafkalog dump-index`: print index and sidecar files, with each entry checked against the log."""

from collections import Counter

from typer import Context

from kafkalog_cli.cli.exit_codes import READ
from kafkalog_cli.cli.option_groups import DecodingLimits, Topics
from kafkalog_cli.cli.options import Format, OutputFormat, PathsArgument
from kafkalog_cli.errors import UsageError

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
    from kafkalog_cli.cli.run import Run
    from kafkalog_cli.ops.checks.file_report import Verdict, counts_of
    from kafkalog_cli.ops.checks.partition_check import ReadContext
    from kafkalog_cli.ops.checks.root_reports import Ignored, Trouble, index_reports
    from kafkalog_cli.output.index_view import report_lines, write_report

    run = Run(context, output)
    run.show_reads(prints_while_reading=True)
    files, verdicts = 0, Counter[Verdict]()
    read_context = ReadContext(run.fs, decoding.limits, run.environment.sleep)
    for reported in index_reports(read_context, paths, topics.selection):  # a failure ends only its file or partition
        if isinstance(reported, Ignored):
            message = "ignored: it is not an index, a snapshot, a checkpoint or a metadata file"
            run.warn("ignored", message, reported.path)
            continue
        if isinstance(reported, Trouble):
            run.fail(reported.error)
            continue
        run.lock_warnings.about_partitions(reported.path.rpartition("/")[0] or ".")
        run.codes.append(reported.exit_code)
        files += 1
        verdicts.update(reported.counts)
        if run.lines is not None:
            write_report(run.lines, reported)
        else:
            for line in report_lines(reported):
                run.out.write(line)
    return run.end(files=files, entries=verdicts.total(), verdicts=counts_of(verdicts))

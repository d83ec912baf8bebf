"""`kafkalog export`: write the records of logs as Parquet, Arrow or NDJSON files."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Annotated, Literal, NamedTuple

from typer import Context

from kafkalog_cli.cli.engine import engine_of
from kafkalog_cli.cli.exit_codes import CHANGE_DAMAGED
from kafkalog_cli.cli.options import (
    CodecName,
    Contents,
    IsolationOption,
    Now,
    OutputFormat,
    PartitionPaths,
    Spark,
    Topics,
    WantedRange,
    output_option,
    selection_option,
)
from kafkalog_cli.cli.run import Run
from kafkalog_cli.errors import DamagedLog, counted
from kafkalog_cli.log.reading.record_arrow import need_pyarrow
from kafkalog_cli.ops.choices import Isolation, OnDamage
from kafkalog_cli.ops.decoding import Decoding
from kafkalog_cli.ops.move.export_files import MadeFile
from kafkalog_cli.ops.move.export_job import Export, ExportResult, exported_partitions
from kafkalog_cli.ops.move.export_request import ExportRequest, FileFormat
from kafkalog_cli.ops.ranges import Range
from kafkalog_cli.output.export_lines import ExportLines
from kafkalog_cli.output.ndjson import JsonLines
from kafkalog_cli.output.progress import sized, spent
from kafkalog_cli.output.stream import printable

EXAMPLES = {
    "Write a topic as Parquet files": "kafkalog export /var/lib/kafka --topic orders --output lake",
    "Write new records each night, exactly once": (
        "kafkalog export /var/lib/kafka --output lake --by-day --state lake.state"
    ),
    "Write NDJSON, which append takes": "kafkalog export /var/lib/kafka/orders-0 --output lake --format json",
}
EXIT_CODES = CHANGE_DAMAGED


# fmt: off
class ExportOptions(NamedTuple):
    """The options of export."""

    paths: PartitionPaths
    output: Annotated[str, output_option(metavar="DIR", show_default=False,
        help="Directory for the files: topic=NAME/PARTITION-OFFSET.parquet.")]
    file_format: Annotated[Literal["parquet", "arrow", "json", "ndjson"], output_option("--format",
        help="Format of the files: Parquet, Arrow IPC, or NDJSON as read prints it and append takes"
        " it.")] = "parquet"
    codec: Annotated[CodecName | None, output_option(
        help="Compression of Parquet files (default: snappy) and Arrow files (default: none; lz4 and zstd).")] = None
    by_day: Annotated[bool, output_option("--by-day",
        help="Make a directory per day (UTC) of the timestamps: topic=NAME/day=YYYY-MM-DD.")] = False
    state: Annotated[str | None, output_option(metavar="FILE",
        help="Export only records since the last run with FILE, exactly once. The first run creates FILE.")] = None
    mode: Annotated[OnDamage, selection_option(
        help="At damage: export nothing, or leave out unreadable records and report them (exit code 3 or"
        " 4).")] = OnDamage.FAILFAST
    isolation: IsolationOption = Isolation.READ_UNCOMMITTED
    include_control: Annotated[bool, selection_option("--include-control",
        help="Include the markers of transactions.")] = False
    contents: Contents = Contents()
    topics: Topics = Topics()
    range: WantedRange = WantedRange()
    now: Now = None
    spark: Spark = Spark()
    quiet: Annotated[bool, output_option("--quiet", envvar="KAFKALOG_QUIET",
        help="Print nothing if no file was written.")] = False
    report: Annotated[OutputFormat, output_option(
        help="Format of the output: text, or NDJSON (json) with an object per file and a summary. Then errors and"
        " progress on stderr are objects too.")] = "text"
# fmt: on


def export(context: Context, options: ExportOptions) -> int:
    """Write records as Parquet, Arrow or NDJSON files.

    The files have all parts of the records, in the order of offsets. They become visible when the whole export is done:
    an export that fails or is killed leaves no visible file, and the next export removes the rest. With --state, each
    run exports new records up to the last whole batch, and commits the state together with the files.

    With --value-format or --key-format, Parquet and Arrow files have the columns value_json or key_json too: decoded
    contents as JSON text. Records of NDJSON have the member decoded. An import leaves both out.

    Needs the extra `arrow`, or `spark` for --engine spark. Nothing is locked or changed in a log directory.
    """
    run, paths = Run(context, options.report), options.paths
    selection = options.topics.selection
    engine = engine_of(run.environment, options.spark, as_json=run.as_json)
    decoding = options.contents.decoding.absolute()
    need_pyarrow()
    request = _request(run, options, decoding)
    request.check()
    partitions = exported_partitions(run.fs, paths, selection)
    if not options.quiet:
        run.lock_warnings.about_partitions(*(partition.path for partition in partitions))
    lines = ExportLines() if request.format is FileFormat.JSON else None
    command = [*paths, selection.text, str(request.range), request.codec, options.mode.value]
    now_ms = run.environment.now_ms()
    export = Export(run.fs, partitions, request, options.output, options.state, now_ms, lines, command)
    begun = run.environment.clock()
    try:
        with engine as map_each:
            result = export.run(map_each, run.progress)
    except DamagedLog as error:
        step = "nothing was exported; --mode dropmalformed exports what can be read"
        run.messages.error(type(error).__name__, str(error), exit_code=error.exit_code, next_step=step)
        return int(error.exit_code)
    run.progress.erase()
    return _print(run, options, result, run.environment.clock() - begun)


def _request(run: Run, options: ExportOptions, decoding: Decoding) -> ExportRequest:
    wanted = options.range.wanted(run.environment, options.now)
    file_format = FileFormat("json" if options.file_format == "ndjson" else options.file_format)
    return ExportRequest(
        file_format,
        file_format.codecs[0] if options.codec is None else options.codec,
        options.by_day,
        wanted or Range(),
        options.isolation,
        options.mode,
        options.include_control,
        options.state is not None,
        decoding,
    )


def _print(run: Run, options: ExportOptions, result: ExportResult, seconds: float) -> int:
    run.messages.report(*result.notes, *result.gaps)
    for damage in result.damage:
        run.messages.exception(damage)
    if result.more_damage:
        run.messages.error("more-damage", f"{result.more_damage} more places are damaged")
    if result.completed:
        message = f"{len(result.completed)} files of an earlier run, which was cut off after its commit, are in place"
        run.messages.warn("completed", message)
    counts = {}
    if run.lines is not None:
        counts = _write_objects(run.lines, result, options.output.rstrip("/"))
    elif result.files or not options.quiet:
        run.write_lines(_lines(result.files, seconds))
    run.codes.append(result.exit_code)
    return run.end(**counts)


def _write_objects(lines: JsonLines, result: ExportResult, output: str) -> dict[str, int]:
    """Write an object for each file not reported before; return the counts of the summary.

    The files of an earlier, cut-off run come first.
    """
    for files, of_earlier_run in ((result.completed, True), (result.files, False)):
        for file in files:
            lines.result(file, path=f"{output}/{file.path}", of_earlier_run=of_earlier_run)
    files_made = [*result.completed, *result.files]
    return {
        "files": len(files_made),
        "topics": len({file.topic for file in files_made}),
        "partitions": len({(file.topic, file.partition) for file in files_made}),
        "records": sum(file.records for file in files_made),
        "bytes": sum(file.size_bytes for file in files_made),
        "of_earlier_run": len(result.completed),
        "damaged": len(result.damage) + result.more_damage,
        "gaps": len(result.gaps),
    }


def _lines(files: Sequence[MadeFile], seconds: float) -> Iterator[str]:
    """Yield a line per topic, and the sum of several; the last has the duration of the run."""
    by_topic = groupby(sorted(files, key=lambda file: file.topic), key=lambda file: file.topic)
    lines = [f"{printable(topic)}: {_sum_of([*group])}" for topic, group in by_topic]
    if len(lines) != 1:
        lines.append(f"{len(lines)} topics: {_sum_of(files)}")
    lines[-1] += f", {spent(seconds)}"
    yield from lines


def _sum_of(files: Sequence[MadeFile]) -> str:
    records, size_bytes = sum(file.records for file in files), sum(file.size_bytes for file in files)
    partitions = len({(file.topic, file.partition) for file in files})
    where = f"{counted(partitions, 'partition')} in {counted(len(files), 'file')}"
    return f"{counted(records, 'record')} of {where}, {sized(size_bytes)}"

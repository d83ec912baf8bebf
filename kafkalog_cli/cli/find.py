"""`kafkalog find`: print the records that meet some conditions."""

from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Annotated, NamedTuple

from typer import Argument, Context, Option

from kafkalog_cli.cli.exit_codes import READ
from kafkalog_cli.cli.options import (
    Contents,
    Format,
    IsolationOption,
    Jobs,
    Now,
    OutputLimits,
    RangeOptions,
    Topics,
    default_jobs,
    output_option,
)
from kafkalog_cli.cli.printed_records import PartitionPrinter, fields_of, record_form_of
from kafkalog_cli.cli.run import Run
from kafkalog_cli.errors import ExitCode, UsageError, combined_exit_code
from kafkalog_cli.format.batch import Batch
from kafkalog_cli.format.java_text import java_string
from kafkalog_cli.format.records import Row, header_views, view_of
from kafkalog_cli.log.partition import Partition, Segment, log_bytes
from kafkalog_cli.ops.choices import Isolation
from kafkalog_cli.ops.keys import WantedKey, bytes_as_given, bytes_of
from kafkalog_cli.ops.look.read.conditions import (
    Conditions,
    FindRequest,
    HeaderCondition,
    parse_json_condition,
    parse_regex,
)
from kafkalog_cli.ops.look.read.events import FoundRecords
from kafkalog_cli.ops.look.read.request import ReadRequest
from kafkalog_cli.ops.look.read.search import SearchedPartition, find_records
from kafkalog_cli.output.decoded_values import DecodedValues
from kafkalog_cli.output.line_program import record
from kafkalog_cli.output.progress import Progress
from kafkalog_cli.output.read_printer import consumer_form, decoded_text
from kafkalog_cli.output.rendering import LineForm
from kafkalog_cli.output.stream import Paint, paint_of, printable

EXAMPLES = {
    "Find a customer's records in all topics": "kafkalog find /var/lib/kafka --key customer-7",
    "Find an order in JSON values of the last two hours, with three records before and after it": (
        "kafkalog find /var/lib/kafka --topic orders --json order.id=42 --from-time -2h -C 3"
    ),
    "Print the last error of each partition as NDJSON": (
        "kafkalog find /var/lib/kafka --regex 'error|failed' -i --last 1 --format json"
    ),
}
EXIT_CODES = READ | {ExitCode.OK: "some record matches", ExitCode.FAILURE: "no record matches, or an error"}

_condition = partial(Option, rich_help_panel="Conditions")


# fmt: off
class FindOptions(NamedTuple):
    """The options of find."""

    paths: Annotated[list[str], Argument(metavar="PATH...", show_default=False,
        help="Log directories, partition directories, segment files under any name (.gz and .zst too), or globs"
        " of them.")]
    key: Annotated[str | None, _condition("--key", metavar="KEY",
        help="The key is KEY: as --key-format prints it, or bytes as hex:00FF or base64:AP8=.")] = None
    value: Annotated[str | None, _condition("--value", metavar="TEXT", help="The value contains TEXT.")] = None
    regex: Annotated[str | None, _condition("--regex", "-e", metavar="REGEX",
        help="The key or the value contains a match of Python's regular expression REGEX, on bytes.")] = None
    header: Annotated[list[str] | None, _condition("--header", metavar="NAME[=VALUE]",
        help="The record has a header NAME, with this value (bytes: hex:00FF or base64:AP8=); may be repeated.")] = None
    json_path: Annotated[list[str] | None, _condition("--json", metavar="PATH[=VALUE]",
        help="The value is JSON, and has something at PATH, such as order.items[0].id; [*] is each element. With VALUE,"
        " it is this text or JSON value. With --key-format, key.PATH leads into the key. May be repeated.")] = None
    ignore_case: Annotated[bool, _condition("--ignore-case", "-i",
        help="Ignore the case of ASCII letters in --value and --regex.")] = False
    topics: Topics = Topics()
    range: RangeOptions = RangeOptions()
    isolation: IsolationOption = Isolation.READ_UNCOMMITTED
    now: Now = None
    first: Annotated[int | None, output_option("--first", metavar="N", min=1,
        help="Stop after the first N matches of each partition.")] = None
    last: Annotated[int | None, output_option("--last", metavar="N", min=1,
        help="Print only the last N matches of each partition. The search begins at its end.")] = None
    only_counts: Annotated[bool, output_option("--count", "-c",
        help="Print only the number of matches, for each partition with a match.")] = False
    before: Annotated[int | None, output_option("--before-context", "-B", metavar="N", min=0,
        help="Print also N records before each match.")] = None
    after: Annotated[int | None, output_option("--after-context", "-A", metavar="N", min=0,
        help="Print also N records after each match.")] = None
    around: Annotated[int, output_option("--context", "-C", metavar="N", min=0,
        help="Print also N records before and after each match.")] = 0
    contents: Contents = Contents()
    print_: Annotated[str | None, output_option("--print", metavar="FIELD,...",
        help="Fields of a line of text: timestamp, partition, offset, epoch, headers, key, value. Default:"
        " key,value.")] = None
    kcat_format: Annotated[str | None, output_option("-f", metavar="FORMAT",
        help=r"Print each record in kcat's format, as `read -f` does, such as '%t %p %o: %k %s\n'.")] = None
    output_format: Format = "text"
    jobs: Jobs = 0
    limits: OutputLimits = OutputLimits()
# fmt: on


def find(context: Context, options: FindOptions) -> int:
    """Print the records that meet all conditions.

    Each line begins with topic-partition:offset. Records come in the order of the partitions and of their offsets.
    The exit code is 1 if no record matches. Batches that cannot match are not decoded, so damage in them is not
    reported. `verify --level deep` finds it.

    With --value-format, --json looks into decoded values, such as Avro. --value and --regex always search the
    stored bytes. Values that cannot be decoded do not match --json. The reason is a warning, and the exit code is 3.

    Without a condition every record matches: --count counts them, and --last 10 prints the last ten of each
    partition. A partition without the offsets or times of the range has no match. JSON values of more than 64 MiB, or
    of more than 2 million elements, are not searched for --json: that is a warning, too, and the exit code is 3.
    """
    run = Run(context, options.output_format)
    fields, has_context = fields_of(options.print_ or "key,value"), any(_around(options))
    form = record_form_of(run, fields, options.kcat_format, has_context=has_context)
    request = _request(run, options)
    options.contents.decoding.check()
    is_text = not run.as_json and options.kcat_format is None
    if is_text:
        form = partial(found_form, fields, request.conditions, paint_of(run.out) if run.out.is_terminal else None)
    partitions = run.select_served(options.paths, options.topics.selection)
    decoder = run.decoder_of(options.contents.decoding, [partition.path for partition in partitions])
    run.progress.begin("find", sum(map(log_bytes, partitions)))
    events = find_records(
        *(run.fs, partitions, replace(request, decoder=decoder)),
        jobs=options.jobs or default_jobs(), advance=partial(_advance, run.progress),
    )  # fmt: skip
    searched: list[SearchedPartition] = []
    has_output = False
    printers = (PartitionPrinter(run, partition, form, decoder) for partition in partitions)
    printer, is_new = next(printers), False
    with closing(events):
        for event in events:
            if isinstance(event, FoundRecords):
                if is_text and (event.found.after_gap or is_new):
                    run.out.write(GAP_LINE)
                lines = printer.lines(event.segment, is_match=event.found.is_match)
                lines.write(event.found.block, run.out.write_bytes)
                has_output, is_new = True, False
                if run.out.is_terminal:
                    run.out.flush()
            elif isinstance(event, SearchedPartition):
                if printer.report_undecoded():
                    event.code = combined_exit_code([event.code, ExitCode.WARNINGS])
                searched.append(event)
                if options.only_counts:
                    _print_count(run, event)
                printer, is_new = next(printers, printer), has_output and has_context
            else:
                printer.report(event)
    matches, matching = sum(result.matches for result in searched), sum(result.matches > 0 for result in searched)
    run.codes.append(_exit_code(searched))
    return run.end(matches=matches, partitions=len(searched), matching_partitions=matching)


def _advance(progress: Progress, size_bytes: int, path: str = "", /) -> None:
    if path.endswith((".log", ".kafka")):
        progress.advance(size_bytes, path)


def _print_count(run: Run, searched: SearchedPartition) -> None:
    if run.lines is not None:
        run.lines.result(searched)
    elif searched.matches:
        name = searched.partition.directory.name
        run.out.write(f"{printable(name) if run.out.is_terminal else name}:{searched.matches}\n")


def _around(options: FindOptions) -> tuple[int, int]:
    """Return the numbers of records to print before and after a match."""
    before, after, both = options.before, options.after, options.around
    return both if before is None else before, both if after is None else after


def _request(run: Run, options: FindOptions) -> FindRequest:
    if options.kcat_format is not None and (run.as_json or options.print_ is not None):
        raise UsageError(reason="-f cannot be combined with --format json or --print")
    if options.only_counts and (options.kcat_format is not None or any(_around(options))):
        raise UsageError(reason="--count prints no records: it cannot be combined with -f, -A, -B or -C")
    if options.first is not None and options.last is not None:
        raise UsageError(reason="find takes one of --first and --last")
    bounds = options.range.bounds(run.environment, options.now, "find")
    read = ReadRequest(*bounds, isolation=options.isolation, limits=options.limits.limits())
    around = _around(options)
    return FindRequest(_conditions(options), read, options.first, options.last, *around, options.only_counts)


def _conditions(options: FindOptions) -> Conditions:
    if options.ignore_case and options.value is None and options.regex is None:
        raise UsageError(reason="--ignore-case is for --value and --regex")
    pattern = None if options.regex is None else parse_regex(options.regex, ignores_case=options.ignore_case)
    headers = []
    for text in options.header or ():
        name, sign, value = text.partition("=")
        headers.append(HeaderCondition(bytes_as_given(name), bytes_of(value) if sign else None))
    key_format = options.contents.key_format
    paths = (parse_json_condition(text, has_keys=key_format is not None) for text in options.json_path or ())
    return Conditions(
        None if options.key is None else WantedKey(options.key, key_format),
        None if options.value is None else bytes_as_given(options.value),
        options.ignore_case, pattern, tuple(headers), tuple(paths),
    )  # fmt: skip


def _exit_code(searched: list[SearchedPartition]) -> ExitCode:
    """Return the code of damage or failures; without any, FAILURE if nothing matches."""
    code = combined_exit_code([result.code for result in searched])
    if code is ExitCode.OK and not any(result.matches for result in searched):
        return ExitCode.FAILURE
    return code


_CONTINUATION = range(0x80, 0xC0)
GAP_LINE = "--\n"
"""Stands between records that do not follow each other, where records around matches are printed."""


def found_form(  # noqa: PLR0913, PLR0917
    fields: frozenset[str], conditions: Conditions, paint: Paint | None,
    partition: Partition, segment: Segment, values: DecodedValues | None, is_match: bool,
) -> LineForm:  # fmt: skip
    """Return the form of found records of a partition, each line after its topic, partition and offset.

    `paint` None: not for a terminal, so nothing is escaped. On a terminal, the matching parts of contents are coloured.
    """
    name = partition.directory.name if paint is None else paint.heading(printable(partition.directory.name))
    texts = None
    if paint is not None and is_match:
        coloured = tuple(one for one in ("headers", "key", "value") if one in fields)
        texts = coloured, _Coloured(coloured, conditions, paint, values).texts
    return consumer_form(
        fields, partition.number, escape=paint is not None, is_v07=segment.is_v07, values=values,
        before=(name, ":", record("offset"), ":" if is_match else "-"), texts=texts,
    )  # fmt: skip


class _Coloured(NamedTuple):
    """Makes the texts of matching records, with their matching parts coloured."""

    fields: tuple[str, ...]
    conditions: Conditions
    paint: Paint
    values: DecodedValues | None

    def texts(self, buffer: memoryview, row: Row, batch_row: Batch) -> tuple[bytes | None, ...]:
        """Return the texts of the fields of a record."""
        del batch_row
        return tuple(self._text(name, buffer, row) for name in self.fields)

    def _text(self, name: str, buffer: memoryview, row: Row) -> bytes | None:
        if name == "headers":
            headers = header_views(buffer, row[7], row[8])
            texts = (f"{printable(java_string(bytes(key)))}:{self._highlight(value)}" for key, value in headers)
            return ",".join(texts).encode() if row[8] else None
        if self.values is not None:
            text = decoded_text(self.values, name, buffer, row, escape=True)
            if text is not None:
                return text
        data = view_of(buffer, *(row[3:5] if name == "key" else row[5:7]))
        return self._highlight(data).encode()

    def _highlight(self, view: memoryview | None) -> str:
        if view is None:
            return "null"
        data, texts, done = bytes(view), [], 0
        for begin, end in self.conditions.spans(data):
            first, last = _whole_characters(data, max(begin, done), max(end, done))
            if first < last:
                texts += [_escape(data[done:first]), self.paint.bad(_escape(data[first:last]))]
                done = last
        return "".join([*texts, _escape(data[done:])])


def _whole_characters(data: bytes, begin: int, end: int) -> tuple[int, int]:
    """Return the part of UTF-8 bytes, extended to whole characters."""
    while begin > 0 and begin < len(data) and data[begin] in _CONTINUATION:
        begin -= 1
    while end < len(data) and data[end] in _CONTINUATION:
        end += 1
    return begin, end


def _escape(data: bytes) -> str:
    return printable(data.decode("utf-8", "replace"))

"""`kafkalog find`: print the records that meet some conditions."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Annotated, NamedTuple

from typer import Argument, Context, Option

from kafkalog_cli.cli.exit_codes import READ
from kafkalog_cli.cli.option_groups import Contents, OutputLimits, RangeOptions, ReadTopics
from kafkalog_cli.cli.options import Format, IsolationOption, Jobs, Now, OutputFormat, default_jobs, output_option
from kafkalog_cli.cli.read_run import RecordOutput, fields_of
from kafkalog_cli.cli.run import Run
from kafkalog_cli.errors import ExitCode, UsageError, combined_exit_code
from kafkalog_cli.log.partition import Partition, Segment
from kafkalog_cli.ops.choices import Isolation
from kafkalog_cli.ops.engine import log_bytes
from kafkalog_cli.ops.find.conditions import Conditions, FindRequest, HeaderCondition, parse_json_condition, parse_regex
from kafkalog_cli.ops.find.context import FoundBlock
from kafkalog_cli.ops.find.partition_search import (
    DamagedPart,
    FindEvent,
    FoundRecords,
    NotRead,
    SearchedPartition,
    find_records,
)
from kafkalog_cli.ops.keys import WantedKey, bytes_as_given, bytes_of
from kafkalog_cli.ops.read.request import ReadRequest
from kafkalog_cli.output.decoded_values import DecodedValues
from kafkalog_cli.output.find_view import FoundText
from kafkalog_cli.output.kcat_text import parse_kcat_format
from kafkalog_cli.output.stream import paint_of, printable

EXAMPLES = (
    ("Find a customer's records in all topics", "kafkalog find /var/lib/kafka --key customer-7"),
    (
        "Find an order in JSON values of the last two hours, with three records before and after it",
        "kafkalog find /var/lib/kafka --topic orders --json order.id=42 --from-time -2h -C 3",
    ),
    (
        "Print the last error of each partition as NDJSON",
        "kafkalog find /var/lib/kafka --regex 'error|failed' -i --last 1 --format json",
    ),
)
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
    topics: ReadTopics = ReadTopics()
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
    output_format: Format = OutputFormat.TEXT
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
    return FindRun(Run(context, options.output_format), options).run()


class FindRun:
    """Prints what is found in partitions, in their order. An error in one partition does not end the others."""

    def __init__(self, run: Run, options: FindOptions) -> None:
        self._run, self._options, self._as_json = run, options, run.as_json
        self._out, self._messages = run.out, run.messages
        kcat_format = None if options.kcat_format is None else parse_kcat_format(options.kcat_format)
        self._fields = fields_of(options.print_ or "key,value")
        self._output = RecordOutput(self._out, self._messages, self._fields, kcat_format, self._as_json)
        self._request = self._checked_request()
        options.contents.decoding.check()
        self._paint = paint_of(self._out) if self._out.is_terminal else None
        self._segment: Segment | None = None
        self._partition: Partition | None = None
        self._values: DecodedValues | None = None
        self._write: Callable[[FoundBlock], None] = self._nothing
        self._has_output = False

    def run(self) -> int:
        """Search; return the exit code. Raises UsageError, and the exceptions of `select_served`."""
        run, options = self._run, self._options
        chosen = run.select_served(options.paths, options.topics.selection)
        decoder = run.decoder_of(options.contents.decoding, [partition.path for partition in chosen])
        self._output = self._output._replace(decoder=decoder)
        self._request = replace(self._request, decoder=decoder)
        done: list[SearchedPartition] = []
        run.progress.begin("find", sum(map(log_bytes, chosen)))
        events = find_records(
            *(run.fs, chosen, self._request),
            jobs=options.jobs or default_jobs(), on_read=self._advance,
        )  # fmt: skip
        with closing(events):
            for event in events:
                if isinstance(event, SearchedPartition):
                    done.append(event)
                    self._end_partition(event)
                else:
                    self._show(chosen[len(done)], event)
        matches, matching = sum(one.matches for one in done), sum(one.matches > 0 for one in done)
        run.codes.append(_exit_code(done))
        return run.end(matches=matches, partitions=len(done), matching_partitions=matching)

    def _advance(self, path: str, size_bytes: int) -> None:
        if path.endswith((".log", ".kafka")):
            self._run.progress.advance(size_bytes, path)

    def _show(self, partition: Partition, event: FindEvent) -> None:
        if isinstance(event, FoundRecords):
            if self._segment is not event.segment:
                self._segment, self._write = event.segment, self._writer(partition, event.segment)
            self._write(event.found)
            self._has_output = True
            if self._out.is_terminal:
                self._out.flush()
            return
        if isinstance(event, DamagedPart):
            self._run.damage(partition, event.path, event.fault)
        elif isinstance(event, NotRead):
            self._run.not_read(event.path, event.error)
        else:
            self._run.warn(event.kind, event.message, event.path)

    def _writer(self, partition: Partition, segment: Segment) -> Callable[[FoundBlock], None]:
        """Return the function that writes the records of a segment."""
        self._values = self._values or self._output.values(partition)
        if self._as_json and self._request.has_context:
            return self._json_writer(partition, segment)
        if self._as_json or self._output.kcat_format is not None:
            printer = self._output.printer(partition, segment, self._values)
            return lambda found: printer.block(found.block)
        text = FoundText(self._out, self._fields, partition, self._request.conditions, self._paint, self._values)
        is_new = self._has_output and self._request.has_context and self._partition is not partition
        self._partition = partition

        def write(found: FoundBlock) -> None:
            nonlocal is_new
            text.write(found, after_gap=found.after_gap or is_new)
            is_new = False

        return write

    def _json_writer(self, partition: Partition, segment: Segment) -> Callable[[FoundBlock], None]:
        from kafkalog_cli.output.record_json import RecordJsonOptions, SegmentContext, record_form, topic_decode
        from kafkalog_cli.output.rendering import BlockLines

        directory, name = partition.directory, segment.log.path.rpartition("/")[2]
        context = SegmentContext(directory.topic, directory.partition, name, segment.is_seven)
        decode = topic_decode(directory.topic)
        options = RecordJsonOptions(with_batches=False, decode=decode, values=self._values)
        lines = [BlockLines(record_form(context, options, is_match=is_match)) for is_match in (False, True)]

        def write(found: FoundBlock) -> None:
            lines[found.is_match].write(found.block, self._out.write_bytes)

        return write

    @staticmethod
    def _nothing(found: FoundBlock) -> None:
        """Write nothing: no segment has begun."""

    def _end_partition(self, searched: SearchedPartition) -> None:
        failures = [] if self._values is None else self._values.failures()
        self._values = None
        if failures:
            searched.code = combined_exit_code([searched.code, ExitCode.WARNINGS])
            self._out.flush()
        for one in failures:
            self._messages.warn("undecoded", one.message, path=searched.partition.path)
        if not self._options.only_counts:
            return
        if self._run.lines is not None:
            self._run.lines.result(searched)
        elif searched.matches:
            name = searched.partition.directory.name
            self._out.write(f"{printable(name) if self._out.is_terminal else name}:{searched.matches}\n")

    def _checked_request(self) -> FindRequest:
        options = self._options
        if options.kcat_format is not None and (self._as_json or options.print_ is not None):
            raise UsageError(reason="-f cannot be combined with --format json or --print")
        if options.only_counts and (options.kcat_format is not None or any(self._around())):
            raise UsageError(reason="--count prints no records: it cannot be combined with -f, -A, -B or -C")
        if options.first is not None and options.last is not None:
            raise UsageError(reason="find takes one of --first and --last")
        bounds = options.range.bounds(self._run.environment, options.now, "find")
        isolation, limits = options.isolation, options.limits.limits()
        return FindRequest(
            self._conditions(), ReadRequest(*bounds, isolation=isolation, limits=limits),
            options.first, options.last, *self._around(), options.only_counts,
        )  # fmt: skip

    def _around(self) -> tuple[int, int]:
        """Return the numbers of records to print before and after a match."""
        before, after, both = self._options.before, self._options.after, self._options.around
        return both if before is None else before, both if after is None else after

    def _conditions(self) -> Conditions:
        options = self._options
        if options.ignore_case and options.value is None and options.regex is None:
            raise UsageError(reason="--ignore-case is for --value and --regex")
        pattern = None if options.regex is None else parse_regex(options.regex, ignores_case=options.ignore_case)
        headers = []
        for text in options.header or ():
            name, sign, value = text.partition("=")
            headers.append(HeaderCondition(bytes_as_given(name), bytes_of(value) if sign else None))
        key_format = options.contents.key_format
        paths = (parse_json_condition(one, has_keys=key_format is not None) for one in options.json_path or ())
        return Conditions(
            None if options.key is None else WantedKey(options.key, key_format),
            None if options.value is None else bytes_as_given(options.value),
            options.ignore_case, pattern, tuple(headers), tuple(paths),
        )  # fmt: skip


def _exit_code(done: list[SearchedPartition]) -> ExitCode:
    """Return the code of damage or failures; without any, FAILURE if nothing matches."""
    code = combined_exit_code([one.code for one in done])
    if code is ExitCode.OK and not any(one.matches for one in done):
        return ExitCode.FAILURE
    return code

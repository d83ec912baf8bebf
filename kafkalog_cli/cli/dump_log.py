"""`kafkalog dump-log`: kafka-dump-log's options and text, for files, directories and globs."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from typer import Argument, Context, Exit, Option, echo

from kafkalog_cli.cli.commands import Command
from kafkalog_cli.cli.exit_codes import READ
from kafkalog_cli.cli.options import (
    Contents,
    DecodingLimits,
    Format,
    Now,
    Topics,
    WantedRange,
    output_option,
    selection_option,
)
from kafkalog_cli.cli.run import Run
from kafkalog_cli.disk.fs import ReadableFile
from kafkalog_cli.disk.names import FileKind, classify_file
from kafkalog_cli.errors import ExitCode, KafkalogError, UsageError
from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.java_text import parse_long
from kafkalog_cli.format.kafka_version import NEWEST, kafka_version_of
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.log.partition import directory_name, segment_of_file
from kafkalog_cli.ops.look.dump import MAX_INT32, DumpOptions, SegmentDump
from kafkalog_cli.ops.selection import Selection, select_files
from kafkalog_cli.output.decoders import DECODERS, STRING_DECODER
from kafkalog_cli.output.dump_printer import DumpReports, JsonPrinter, SegmentPrinter, TextPrinter, V07Printer
from kafkalog_cli.output.dump_text import ClassDecoder, KeyValueDecoder, LogText, java_absolute_path, java_path
from kafkalog_cli.output.redact import NO_REDACTION, parse_redaction, redacting_decoder
from kafkalog_cli.output.stream import printable

if TYPE_CHECKING:
    from kafkalog_cli.format.values.decoder import ValueDecoder
    from kafkalog_cli.ops.keys import WantedKey
    from kafkalog_cli.output.ndjson import JsonLines

EXAMPLES = {
    "Print the batches and records of a segment": (
        "kafkalog dump-log --files /var/lib/kafka/orders-0/00000000000000000000.log --print-data-log"
    ),
    "Print records of one partition by their offsets": (
        "kafkalog dump-log /var/lib/kafka/orders-0 --print-data-log --from-offset 100 --to-offset 110"
    ),
    "Print all records with a key as NDJSON, without their values": (
        "kafkalog dump-log /var/lib/kafka --topic orders --key customer-7 --format json --redact values"
    ),
}
EXIT_CODES = READ


DEFAULT_DECODER = "org.apache.kafka.tools.api.StringDecoder"

_ONCE = ("--files", "--max-bytes", "--max-message-size", "--key-decoder-class", "--value-decoder-class")
_OPTIONAL_ARGUMENT = ("--key-decoder-class", "--value-decoder-class")
SEGMENT_SUFFIXES = (".log", ".checkpoint", ".kafka")
SIDECAR_SUFFIXES = (".index", ".timeindex", ".snapshot", ".txnindex")
tool_option = partial(Option, rich_help_panel="Options of kafka-dump-log")


def as_the_real_tool(words: list[str]) -> list[str]:
    """Return the words of a command line for parsers that do not allow what the real tool's (jopt-simple) allows.

    A decoder option's argument is optional: a word that looks like an option is not its argument.
    The option --version moves to the end, because --kafka-version decides what it prints, in any order.
    """
    for name in _ONCE:
        if sum(word == name or word.startswith(f"{name}=") for word in words) > 1:
            raise UsageError(reason=f"dump-log takes only one {name}")
    rewritten = []
    for index, word in enumerate(words):
        following = words[index + 1] if index + 1 < len(words) else "-"
        alone = word in _OPTIONAL_ARGUMENT and following.startswith("-")
        rewritten.append(f"{word}={DEFAULT_DECODER}" if alone else word)
    end = rewritten.index("--") if "--" in rewritten else len(rewritten)
    if "--version" in rewritten[:end]:
        rewritten = [*(word for word in rewritten[:end] if word != "--version"), "--version", *rewritten[end:]]
    return rewritten


def tool_flag(name: str, text: str) -> Any:
    """Declare an option that is true or false."""
    return tool_option(f"--{name}", help=text)


def _decoder_option(name: str, what: str) -> Any:
    return tool_option(
        f"--{name}-decoder-class",
        metavar="[CLASS]",
        help=f"Decoder of the {what}: a class of the real tool (its argument may be left out: StringDecoder), or "
        "string, int, long, short, double, float, uuid, hex, base64, json. Implies --print-data-log.",
    )


def _version(context: Context, value: bool) -> None:
    if value:
        echo(kafka_version_of(context.params.get("kafka_version") or NEWEST.value).release)
        raise Exit


# fmt: off
class ToolOptions(NamedTuple):
    """The options of kafka-dump-log, with their meanings there."""

    files: Annotated[str | None, tool_option(metavar="FILE,...", help="Files to dump, comma separated.")] = None
    print_data_log: Annotated[bool, tool_flag("print-data-log", "Print keys and payloads too.")] = False
    deep_iteration: Annotated[bool, tool_flag("deep-iteration", "Print records, not only batches.")] = False
    key_decoder_class: Annotated[str | None, _decoder_option("key", "keys")] = None
    value_decoder_class: Annotated[str | None, _decoder_option("value", "payloads")] = None
    offsets_decoder: Annotated[bool, tool_flag("offsets-decoder", "Decode as __consumer_offsets.")] = False
    transaction_log_decoder: Annotated[
        bool, tool_flag("transaction-log-decoder", "Decode as __transaction_state.")] = False
    cluster_metadata_decoder: Annotated[
        bool, tool_flag("cluster-metadata-decoder", "Decode as __cluster_metadata.")] = False
    remote_log_metadata_decoder: Annotated[
        bool, tool_flag("remote-log-metadata-decoder", "Decode as __remote_log_metadata.")] = False
    share_group_state_decoder: Annotated[
        bool, tool_flag("share-group-state-decoder", "Decode as __share_group_state.")] = False
    skip_record_metadata: Annotated[
        bool, tool_flag("skip-record-metadata", "Leave out record metadata; also leaves out control records.")] = False
    max_bytes: Annotated[int, tool_option(metavar="BYTES",
        help="Read only batches that end within the first BYTES of each file.")] = (1 << 31) - 1
    max_message_size: Annotated[int, tool_option(metavar="BYTES", envvar="KAFKALOG_MAX_MESSAGE_SIZE",
        help="Bytes read at an index entry's position to find its batch.")] = 5 << 20
    index_sanity_check: Annotated[
        bool, tool_flag("index-sanity-check", "Only check indexes as brokers did at start.")] = False
    verify_index_only: Annotated[bool, tool_flag("verify-index-only", "Check indexes, print no entries.")] = False

    @property
    def decoded_topic(self) -> str | None:
        """The topic as whose records all are decoded, in the order of precedence of the real tool; None for none."""
        return next((name for name, is_wanted in (
            ("__consumer_offsets", self.offsets_decoder),
            ("__transaction_state", self.transaction_log_decoder),
            ("__cluster_metadata", self.cluster_metadata_decoder),
            ("__remote_log_metadata", self.remote_log_metadata_decoder),
            ("__share_group_state", self.share_group_state_decoder),
        ) if is_wanted), None)


class DumpLogOptions(NamedTuple):
    """The options of dump-log."""

    paths: Annotated[list[str] | None, Argument(metavar="PATH...",
        help="Files, partition directories, log directories, or globs of them.")] = None
    tool: ToolOptions = ToolOptions()
    version: Annotated[bool, tool_option("--version", callback=_version, is_eager=True,
        help="Print the version of kafka-dump-log whose text is printed, and exit.")] = False
    kafka_version: Annotated[str, output_option("--kafka-version", is_eager=True, metavar="VERSION",
        envvar="KAFKALOG_KAFKA_VERSION",
        help="Print the text of kafka-dump-log 4.2, 4.3 or 4.4.")] = NEWEST.value
    topics: Topics = Topics()
    range: WantedRange = WantedRange()
    key: Annotated[str | None, selection_option("--key", metavar="KEY",
        help="Print only records with this key: as --key-format prints it, or bytes as hex:00FF or base64:AP8=. Implies"
        " --deep-iteration.")] = None
    max_records: Annotated[int | None, selection_option(metavar="N", min=1, help="Stop after N records.")] = None
    now: Now = None
    strict: Annotated[bool, tool_flag("strict", "Exit with 3 on tail damage and with 4 on corruption.")] = False
    resync: Annotated[bool, tool_flag("resync", "Continue after damage with the next valid batch of the file.")] = False
    output_format: Format = "text"
    values: Contents = Contents()
    redact: Annotated[str | None, output_option(metavar="WHAT", envvar="KAFKALOG_REDACT",
        help="Leave out contents: keys,values,headers[=hash|len]. Keys of headers stay.")] = None
    decoding: DecodingLimits = DecodingLimits()

    @property
    def contents(self) -> bool:
        """Whether keys and payloads are printed."""
        tool = self.tool
        decoders = tool.decoded_topic or tool.key_decoder_class or tool.value_decoder_class
        return tool.print_data_log or bool(decoders)

    @property
    def deep(self) -> bool:
        """Whether records are read, not only batches."""
        return self.tool.deep_iteration or self.contents or self.output_format != "text" or self.key is not None
# fmt: on


def dump_log(context: Context, options: DumpLogOptions) -> int:
    """Print segments as kafka-dump-log does.

    With the options of kafka-dump-log, the text is the same, byte for byte. Directories, globs,
    ranges of offsets and times, and NDJSON are additions. The exit code is 1 if a file could not be read to its end.
    """
    run = Run(context, options.output_format)
    dump = Dump(run, options)
    files = dump.files()
    if run.shows_progress_beside_results:
        run.progress.expect(_segment_bytes(run, files))
    for path in files:
        if options.max_records is not None and dump.shown_records >= options.max_records:
            break
        run.codes.append(ExitCode.OK)
        dump.file(path)
    run.progress.erase()
    run.out.flush()
    run.messages.mirrored(dump.reports.text())
    dumped = len(run.codes)
    if not options.strict:
        run.codes[:] = [ExitCode.FAILURE if any(run.codes) else ExitCode.OK]
    return run.end(files=dumped, batches=dump.batch_count, records=dump.record_count)


class Parser(Command):
    """Takes what jopt-simple takes, the option parser of kafka-dump-log."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: D102
        return super().parse_args(ctx, as_the_real_tool(args))


class Dump:
    """Dumps files in order; damage at which the real tool aborts ends only its file.

    Raises UsageError for options that contradict each other.
    """

    def __init__(self, run: Run, options: DumpLogOptions) -> None:
        self._run, self._options, self._tool = run, options, options.tool
        self._redaction = NO_REDACTION if options.redact is None else parse_redaction(options.redact)
        self._range = options.range.wanted(run.environment, options.now, _wanted_key(options))
        self.reports = DumpReports(kafka_version_of(options.kafka_version))
        self._decoder: ValueDecoder | None = None
        self._contents, self._deep, self._limits = options.contents, options.deep, options.decoding.limits
        self.batch_count = self.record_count = self.shown_records = 0

    def files(self) -> list[str]:
        """Return the paths of the files, and read the schemas for their records. Raises as `select_files`."""
        run, options, paths = self._run, self._options, self._options.paths or []
        named = java_split(options.tool.files) if options.tool.files is not None else []
        if not named and not paths:
            raise UsageError(reason="dump-log needs --files or a PATH; see kafkalog dump-log --help")
        decoding = options.values.decoding
        if any(decoding) and not run.as_json:
            raise UsageError(reason="--key-format, --value-format and --schemas of dump-log need --format json")
        selected = select_files(run.fs, paths, options.topics.selection) if paths else []
        if self._range is not None and selected:
            from kafkalog_cli.ops.ranges import segments_in_range

            selected = segments_in_range(run.fs, selected, self._range)
        files = [java_path(path) for path in (*named, *selected)]
        if decoding:
            self._decoder = run.decoder_of(decoding, [_directory(path) for path in files])
        return files

    def file(self, path: str) -> None:
        """Dump a file by its suffix."""
        run = self._run
        self._title(f"Dumping {self._show_path(path)}\n")
        name = path.rpartition("/")[2]
        suffix = name[name.rindex(".") :] if "." in name else ""
        run.lock_warnings.about_partitions(_directory(path))
        try:
            if suffix in SEGMENT_SUFFIXES:
                self._segment(path, name)
            elif suffix in SIDECAR_SUFFIXES:
                self._sidecar(path, suffix)
            elif not suffix:
                self._fail(path, None, "not a file of a log directory: its name has no suffix")
            else:
                run.out.flush()
                run.messages.mirrored([f"Ignoring unknown file {self._show_path(path)}\n"])
        except BrokenPipeError:
            raise
        except (KafkalogError, OSError) as error:
            run.not_read(path, error)
            run.codes[-1] = ExitCode.FAILURE

    def _sidecar(self, path: str, suffix: str) -> None:
        from kafkalog_cli.ops.look.dump_indexes import GivesUp
        from kafkalog_cli.output.dump_sidecars import Corrupt, Sidecars

        run, tool = self._run, self._tool
        if run.lines is not None:
            self._sidecar_objects(path, run.lines)
        sidecars = Sidecars(
            run.fs, self.reports, self._show_path, self._limits, tool.max_message_size,
            tool.index_sanity_check, tool.verify_index_only,
        )  # fmt: skip
        for line in sidecars.text(path, suffix):  # of JSON output too: for the problems on stderr
            if isinstance(line, GivesUp):
                self._fail(path, line.position, line.message)
            elif isinstance(line, Corrupt):
                run.out.flush()
                run.messages.mirrored([f"{line.message}\n"])
            else:
                self._title(line)

    def _sidecar_objects(self, path: str, lines: "JsonLines") -> None:
        """Print the checked entries of an index or snapshot, and an object for its file, as dump-index does.

        With --verify-index-only only wrong entries are printed, with --index-sanity-check only the object of the file.
        """
        from kafkalog_cli.ops.check.checks.file_report import FileReport
        from kafkalog_cli.ops.check.checks.partition_check import ReadContext
        from kafkalog_cli.ops.check.checks.report_results import results_of
        from kafkalog_cli.ops.check.checks.root_reports import index_reports

        tool = self._tool
        read_context = ReadContext(self._run.fs, self._limits, self._run.environment.sleep)
        for report in index_reports(read_context, [path], Selection()):
            if isinstance(report, FileReport):
                shown = report
                if tool.index_sanity_check or tool.verify_index_only:
                    wrong = (entry for entry in report.entries if entry.exit_code is not ExitCode.OK)
                    shown = replace(report, entries=() if tool.index_sanity_check else tuple(wrong))
                lines.results(results_of(shown))
        lines.flush()

    def _segment(self, path: str, name: str) -> None:
        header = segment_header(name)
        if header is None:
            self._fail(path, None, "the name does not begin with an offset")
            return
        decoder = self._decoder_of_tool()
        if isinstance(decoder, str):
            self._fail(path, None, f"unknown decoder: {decoder}")
            return
        self._title(header)
        if self._tool.max_bytes < 0:
            self._fail(path, None, f"Invalid size: {self._tool.max_bytes}")
            return
        known_gaps = len(self.reports.gaps)
        with self._run.fs.open_read(path) as file:
            if file.size_bytes > MAX_INT32:
                self._fail(path, None, f"{file.size_bytes} bytes are more than a segment can have ({MAX_INT32})")
                return
            seven = classify_file(name)
            base_offset = seven.offset if seven.kind is FileKind.SEVEN_LOG else None
            options = self._dump_options(path, file, base_offset)
            if options is None:
                return
            dump = SegmentDump(file, options, None if self._run.as_json else self.reports.gaps)
            if self._run.as_json:
                self._print_objects(path, dump, name)
            else:
                self._print(path, dump, self._printer(decoder, name, base_offset))
            self.shown_records += dump.shown_records
            if self._options.strict:
                code = dump.damage.exit_code(self._run.fs, file, dump.valid_bytes, self._limits)
                self._run.codes[-1] = code or self._run.codes[-1]
        self.reports.add_gaps(self._show_path(java_absolute_path(path)), known_gaps)

    def _print_objects(self, path: str, dump: SegmentDump, name: str) -> None:
        from kafkalog_cli.output.decoded_values import DecodedValues
        from kafkalog_cli.output.record_json import RecordJsonOptions, SegmentContext, record_form, topic_decode

        directory = directory_name(_directory(path))
        values = None
        if self._decoder is not None and directory.topic is not None:
            values = DecodedValues(self._decoder, directory.topic)
        decode = topic_decode(self._tool.decoded_topic or directory.topic)
        options = RecordJsonOptions(self._redaction, decode=decode, values=values)
        context = SegmentContext(directory.topic, directory.partition, name, name.endswith(".kafka"))
        printer = JsonPrinter(self._run.out, record_form(context, options))
        self._print(path, dump, printer)
        values_shown = options.values_shown
        if values_shown is not None and self._run.report_undecoded(values_shown.undecoded, path):
            self._run.codes[-1] = self._run.codes[-1] or ExitCode.WARNINGS
        self.batch_count += printer.batch_count
        self.record_count += printer.record_count

    def _print(self, path: str, dump: SegmentDump, printer: SegmentPrinter) -> None:
        gave_up = False
        progress, done_bytes = self._run.progress, 0
        for chunk in self._chunks(dump, printer):
            if self._run.shows_progress_beside_results and not isinstance(chunk, Fault):
                batches, end = (chunk.batches, chunk.end_row) if isinstance(chunk, RecordBlock) else (chunk, len(chunk))
                end_bytes = int(batches.position[end - 1]) + int(batches.size_bytes[end - 1]) if end else done_bytes
                progress.advance(end_bytes - done_bytes, path)
                done_bytes = end_bytes
            if isinstance(chunk, Fault):
                self._fail(path, chunk.position, chunk.message, chunk.kind.value)
            elif isinstance(chunk, RecordBlock):
                gave_up = gave_up and chunk.begun > 0
                if gave_up:  # later records of the batch whose record made it give up
                    continue
                printer.block(chunk)
            else:
                printer.batches(chunk)
            if printer.aborted is not None:
                self._fail(path, printer.aborted.position, printer.aborted.message, printer.aborted.kind)
                if not self._options.resync:
                    return
                self._title("\n")
                printer.aborted, gave_up = None, True
        printer.ending(dump.fault, dump.valid_bytes)
        if printer.aborted is not None:
            self._fail(path, printer.aborted.position, printer.aborted.message, printer.aborted.kind)
        elif dump.fault is not None and self._run.as_json:
            self._run.messages.error("trailing-bytes", dump.fault.message, path=path, position=dump.fault.position)

    def _chunks(self, dump: SegmentDump, printer: SegmentPrinter) -> Iterator[RecordBlock | BatchColumns | Fault]:
        if self._deep:
            yield from dump.blocks(printer.ahead)
            return
        for batches in dump.batches():
            if self._options.resync and not isinstance(batches, Fault):
                # One batch at a time: printing stops at a batch that cannot be shown.
                yield from (batches.part(row, row + 1) for row in range(len(batches)))
            else:
                yield batches

    def _dump_options(self, path: str, file: ReadableFile, v07_base_offset: int | None) -> DumpOptions | None:
        """Return which part of the file to read; None if none of it is in the range."""
        options, wanted_range = self._options, self._range
        start, end = 0, self._tool.max_bytes
        if wanted_range is not None:
            from kafkalog_cli.ops.ranges import window

            if wanted_range.key is not None:
                key = wanted_range.key.with_decoder(self._decoder).in_topic(
                    directory_name(path.rpartition("/")[0]).topic or ""
                )
                wanted_range = wanted_range._replace(key=key)
            segment = segment_of_file(self._run.fs, path)
            if segment is not None and not segment.is_v07:
                bounds = window(self._run.fs, segment, file, wanted_range)
                if bounds is None:
                    return None
                start, end = bounds[0], min(bounds[1], end)
        return DumpOptions(
            deep=self._deep,
            start=start,
            end=end,
            limits=self._limits,
            resync=options.resync,
            v07_base_offset=v07_base_offset,
            wanted=wanted_range,
            max_records=None if options.max_records is None else options.max_records - self.shown_records,
            is_gap_before_first=wanted_range is None and not self.reports.version.is_scala,
            knows_brokers=options.strict,  # its exit code is of damage; else the output is that of the tool
        )

    def _printer(self, decoder: KeyValueDecoder, name: str, v07_base_offset: int | None) -> SegmentPrinter:
        out = self._run.out
        if v07_base_offset is not None:
            return V07Printer(out, v07_base_offset, deep=self._deep, contents=self._contents)
        text = LogText(
            decoder=decoder if self._contents else None,
            skip_metadata=self._tool.skip_record_metadata,
            escape=out.is_terminal,
            version=self.reports.version,
        )
        return TextPrinter(out, text, name, whole_file=self._tool.max_bytes == MAX_INT32)

    def _decoder_of_tool(self) -> KeyValueDecoder | str:
        """Return the decoder of this run, or the unknown decoder's name."""
        tool, topic = self._tool, self._tool.decoded_topic
        decoder: KeyValueDecoder
        if topic is not None:
            from kafkalog_cli.output.topic_decoders import topic_decoder

            decoder = topic_decoder(topic, self.reports.version)
        else:
            key, value = tool.key_decoder_class or STRING_DECODER, tool.value_decoder_class or STRING_DECODER
            for name in (value, key):
                if name not in DECODERS:
                    return name
            decoder = ClassDecoder(DECODERS[key], DECODERS[value])
        return redacting_decoder(decoder, self._redaction) if self._redaction else decoder

    def _show_path(self, path: str) -> str:
        """Return the path as the real tool prints it; on a terminal without control characters."""
        return printable(path) if self._run.out.is_terminal or self._run.messages.is_terminal else path

    def _title(self, text: str) -> None:
        """Print a line about the file; JSON output has this in each object."""
        if not self._run.as_json:
            self._run.out.write(text)

    def _fail(self, path: str | None, position: int | None, message: str, kind: str = "") -> None:
        self._run.out.flush()
        word = kind or ("unreadable" if position is None else "damage")
        self._run.messages.error(word, message, path=path, position=position)
        self._run.codes[-1] = ExitCode.FAILURE


def _directory(path: str) -> str:
    return path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")


def _segment_bytes(run: Run, paths: list[str]) -> int:
    total = 0
    for path in paths:
        with suppress(OSError):  # reported when the file is dumped
            status = run.fs.status(path) if path.endswith(SEGMENT_SUFFIXES) else None
            total += 0 if status is None else status.size_bytes
    return total


def java_split(text: str) -> list[str]:
    """Split as Java's `text.split(",")`, which drops empty strings at the end."""
    words = text.split(",")
    while len(words) > 1 and not words[-1]:
        words.pop()
    return words


def segment_header(name: str) -> str | None:
    """Return the line after `Dumping …`; None if the real tool cannot parse the name."""
    base = name.split(".", maxsplit=1)[0]
    if name.endswith((".log", ".kafka")):
        offset = parse_long(base)
        word = "Log starting offset" if name.endswith(".log") else "Starting offset"
        return None if offset is None else f"{word}: {offset}\n"
    if name == "bootstrap.checkpoint":
        return "KRaft bootstrap snapshot\n"
    snapshot = classify_file(name)
    if snapshot.kind is not FileKind.METADATA_SNAPSHOT or snapshot.offset is None:
        return None
    return f"Snapshot end offset: {snapshot.offset}, epoch: {snapshot.epoch}\n"


def _wanted_key(options: DumpLogOptions) -> "WantedKey | None":
    if options.key is None:
        return None
    from kafkalog_cli.ops.keys import WantedKey

    return WantedKey(options.key, options.values.key_format)

"""One run of `kafkalog dump-log`: dumps each file by its suffix, then prints the final reports."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

from kafkalog_cli.cli.dumped_values import DumpedValues, advancing
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.disk.fs import ReadableFile
from kafkalog_cli.disk.names import FileKind, classify_file
from kafkalog_cli.errors import ExitCode, KafkalogError, UsageError, combined_exit_code
from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.internal_topics.schema import kafka_version_of
from kafkalog_cli.format.java_text import parse_long
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.log.partition import directory_name, segment_of_file
from kafkalog_cli.ops.dump import MAX_INT32, DumpOptions, SegmentDump
from kafkalog_cli.ops.selection import Selection, select_files
from kafkalog_cli.ops.session.observer import LockWarnings
from kafkalog_cli.output.decoders import DECODERS, STRING_DECODER
from kafkalog_cli.output.dump_printer import DumpReports, SegmentPrinter, SevenPrinter, TextPrinter
from kafkalog_cli.output.dump_text import ClassDecoder, KeyValueDecoder, LogText, java_absolute_path, java_path
from kafkalog_cli.output.messages import Messages
from kafkalog_cli.output.ndjson import JsonLines
from kafkalog_cli.output.stream import ResultStream, printable

if TYPE_CHECKING:
    from kafkalog_cli.cli.dump_log import DumpLogOptions
    from kafkalog_cli.cli.dump_sidecar_run import SidecarDump
    from kafkalog_cli.ops.keys import WantedKey
    from kafkalog_cli.output.progress import Progress
    from kafkalog_cli.output.record_json_printer import JsonPrinter
    from kafkalog_cli.output.redact import Redaction

SEGMENT_SUFFIXES = (".log", ".checkpoint", ".kafka")
SIDECAR_SUFFIXES = (".index", ".timeindex", ".snapshot", ".txnindex")


class DumpLogRun:
    """Dumps files in order; damage at which the real tool aborts ends only its file."""

    def __init__(self, environment: Environment, options: DumpLogOptions) -> None:
        self._options, self._tool = options, options.tool
        self._is_json = options.output_format.is_json
        self._redaction = _redaction(options.redact)
        self._wanted = options.range.wanted(environment, options.now, _wanted_key(options))
        self._version = kafka_version_of(options.kafka_version)
        self._contents, self._deep, self._limits = options.contents, options.deep, options.decoding.limits
        self._fs = environment.fs
        self._sleep = environment.sleep
        self._out = ResultStream(environment.stdout)
        self._progress, stderr = self._shown_progress(environment)
        self._messages = Messages(stderr, as_json=self._is_json)
        self._reports = DumpReports(self._version)
        self._codes: list[ExitCode] = []
        self._batch_count = self._record_count = self._shown = 0
        self._locks = LockWarnings(environment.fs, self._messages.report)
        self._sidecars: SidecarDump | None = None
        self._values = DumpedValues(environment.fs, self._messages, options.values.decoding)

    def run(self) -> int:
        """Dump the files that are named, unchanged, and the files that the paths select; return the exit code."""
        options = self._options
        selection = options.topics.selection
        named = java_split(self._tool.files) if self._tool.files is not None else []
        if not named and not options.paths:
            raise UsageError(reason="dump-log needs --files or a PATH; see kafkalog dump-log --help")
        if any(options.values.decoding) and not self._is_json:
            raise UsageError(reason="--key-format, --value-format and --schemas of dump-log need --format json")
        chosen = named + self._select(options.paths or [], selection)
        self._values.read_schemas(chosen)
        if self._progress is not None:
            self._progress.expect(self._segment_bytes(chosen))
        with self._progress or nullcontext():
            for path in chosen:
                if options.max_records is not None and self._shown >= options.max_records:
                    break
                self._codes.append(ExitCode.OK)
                self._dump(java_path(path))
        self._out.flush()
        self._messages.mirrored(self._reports.text())
        code = ExitCode.FAILURE if any(self._codes) else ExitCode.OK
        if options.strict:
            code = combined_exit_code(self._codes)
        if self._is_json:
            self._write_summary(code)
        return code

    def _shown_progress(self, environment: Environment) -> tuple[Progress | None, BinaryIO]:
        """Return the progress of a dump into a file or pipe, and the stream for messages beside it.

        A dump on the terminal itself shows where it is.
        """
        stderr = environment.stderr
        if self._is_json or self._out.is_terminal or not stderr.isatty():
            return None, stderr
        from kafkalog_cli.output.progress import Progress, beside

        progress = Progress(stderr, "dump-log", as_json=False, clock=environment.clock)
        return progress, beside(progress, stderr)

    def _segment_bytes(self, paths: list[str]) -> int:
        total = 0
        for path in paths:
            with suppress(OSError):  # reported when the file is dumped
                status = self._fs.status(java_path(path)) if path.endswith(SEGMENT_SUFFIXES) else None
                total += 0 if status is None else status.size_bytes
        return total

    def _select(self, paths: list[str], selection: Selection) -> list[str]:
        if not paths:
            return []
        files = select_files(self._fs, paths, selection)
        if self._wanted is None:
            return files
        from kafkalog_cli.ops.ranges import segments_in_range

        return segments_in_range(self._fs, files, self._wanted)

    def _dump(self, path: str) -> None:
        self._title(f"Dumping {self._shown_path(path)}\n")
        name = path.rpartition("/")[2]
        suffix = name[name.rindex(".") :] if "." in name else ""
        self._locks.about_partitions(path.rpartition("/")[0] or ".")
        try:
            if suffix in SEGMENT_SUFFIXES:
                self._dump_segment(path, name)
            elif suffix in SIDECAR_SUFFIXES:
                self._dump_sidecar(path, name, suffix)
            elif not suffix:
                self._fail(path, None, "not a file of a log directory: its name has no suffix")
            else:
                self._out.flush()
                self._messages.mirrored([f"Ignoring unknown file {self._shown_path(path)}\n"])
        except KafkalogError as error:
            self._out.flush()
            self._messages.exception(error)
            self._codes[-1] = ExitCode.FAILURE
        except BrokenPipeError:
            raise
        except OSError as error:
            self._fail(path, None, f"cannot be read: {error.strerror or error}")

    def _dump_sidecar(self, path: str, name: str, suffix: str) -> None:
        from kafkalog_cli.cli.dump_sidecar_run import SidecarDump

        if self._sidecars is None:
            # JSON output has no place for this text: the checks still run as for text, and report problems on stderr.
            out = ResultStream(io.BytesIO()) if self._is_json else self._out
            self._sidecars = SidecarDump(self._fs, out, self._reports, self._options, self._shown_path)
        if self._is_json:
            self._sidecar_objects(path)
        problem = self._sidecars.dump(path, name, suffix)
        if isinstance(problem, str):
            self._out.flush()
            self._messages.mirrored([f"{problem}\n"])
        elif problem is not None:
            self._fail(path, problem.position, problem.message)

    def _sidecar_objects(self, path: str) -> None:
        """Print the checked entries of an index or snapshot, and an object for its file, as dump-index does.

        With --verify-index-only only wrong entries are printed, with --index-sanity-check only the object of the file.
        """
        from kafkalog_cli.ops.checks.file_report import FileReport
        from kafkalog_cli.ops.checks.root_reports import index_reports
        from kafkalog_cli.ops.checks.segment_reports import ReadContext
        from kafkalog_cli.output.index_view import IndexJson

        tool, lines = self._tool, JsonLines(self._out)
        read_context = ReadContext(self._fs, self._limits, self._sleep)
        for report in index_reports(read_context, [path], Selection()):
            if isinstance(report, FileReport):
                shown = report
                if tool.index_sanity_check or tool.verify_index_only:
                    wrong = (entry for entry in report.entries if entry.exit_code is not ExitCode.OK)
                    shown = replace(report, entries=() if tool.index_sanity_check else tuple(wrong))
                IndexJson(lines).report(shown)
        lines.flush()

    def _dump_segment(self, path: str, name: str) -> None:
        header = segment_header(name)
        if header is None:
            self._fail(path, None, "the name does not begin with an offset")
            return
        decoder = self._decoder()
        if isinstance(decoder, str):
            self._fail(path, None, f"unknown decoder: {decoder}")
            return
        self._title(header)
        if self._tool.max_bytes < 0:
            self._fail(path, None, f"Invalid size: {self._tool.max_bytes}")
            return
        known_gaps = len(self._reports.gaps)
        with self._fs.open_read(path) as file:
            if file.size_bytes > MAX_INT32:
                self._fail(path, None, f"{file.size_bytes} bytes are more than a segment can have ({MAX_INT32})")
                return
            seven = classify_file(name)
            base_offset = seven.offset if seven.kind is FileKind.SEVEN_LOG else None
            options = self._dump_options(path, file, base_offset)
            if options is None:
                return
            dump = SegmentDump(file, options, None if self._is_json else self._reports.gaps)
            if self._is_json:
                printer = self._json_printer(path, name)
                self._print(path, dump, printer)
                if self._values.report(path, printer, self._out.flush):
                    self._codes[-1] = self._codes[-1] or ExitCode.WARNINGS
                self._batch_count += printer.batch_count
                self._record_count += printer.record_count
            else:
                self._print(path, dump, self._printer(decoder, name, base_offset))
            self._shown += dump.shown_records
            if self._options.strict:
                self._codes[-1] = dump.damage.exit_code(
                    self._fs, file, dump.valid_bytes, self._limits
                ) or self._codes[-1]  # fmt: skip
        self._reports.add_gaps(self._shown_path(java_absolute_path(path)), known_gaps)

    def _print(self, path: str, dump: SegmentDump, printer: SegmentPrinter) -> None:
        gave_up = False
        parts = self._parts(dump, printer)
        for part in parts if self._progress is None else advancing(self._progress, parts, path):
            if isinstance(part, Fault):
                self._fail(path, part.position, part.message, part.kind.value)
            elif isinstance(part, RecordBlock):
                gave_up = gave_up and part.begun > 0
                if gave_up:  # a later part of the batch whose record made it give up
                    continue
                printer.block(part)
            else:
                printer.batches(part)
            if printer.aborted is not None:
                self._fail(path, printer.aborted.position, printer.aborted.message, printer.aborted.kind)
                if not self._options.resync:
                    return
                self._title("\n")
                printer.aborted, gave_up = None, True
        printer.ending(dump.fault, dump.valid_bytes)
        if printer.aborted is not None:
            self._fail(path, printer.aborted.position, printer.aborted.message, printer.aborted.kind)
        elif dump.fault is not None and self._is_json:
            self._messages.tell("trailing-bytes", dump.fault.message, path=path, position=dump.fault.position)

    def _parts(self, dump: SegmentDump, printer: SegmentPrinter) -> Iterator[RecordBlock | BatchColumns | Fault]:
        if self._deep:
            yield from dump.blocks(printer.ahead)
            return
        for part in dump.batches():
            if self._options.resync and not isinstance(part, Fault):
                # One batch at a time: printing stops at a batch that cannot be shown.
                yield from (part.part(row, row + 1) for row in range(len(part)))
            else:
                yield part

    def _dump_options(self, path: str, file: ReadableFile, seven_base_offset: int | None) -> DumpOptions | None:
        """Return which part of the file to read; None if none of it is in the range."""
        options, wanted = self._options, self._wanted
        start, end = 0, self._tool.max_bytes
        if wanted is not None:
            from kafkalog_cli.ops.ranges import window

            if wanted.key is not None:
                wanted = wanted._replace(key=self._values.wanted_key(wanted.key, path))
            segment = segment_of_file(self._fs, path)
            if segment is not None and not segment.is_seven:
                found = window(self._fs, segment, file, wanted)
                if found is None:
                    return None
                start, end = found[0], min(found[1], end)
        return DumpOptions(
            deep=self._deep,
            start=start,
            end=end,
            limits=self._limits,
            resync=options.resync,
            seven_base_offset=seven_base_offset,
            wanted=wanted,
            max_records=None if options.max_records is None else options.max_records - self._shown,
            is_gap_before_first=wanted is None and not self._version.is_scala,
            knows_brokers=options.strict,  # its exit code is of damage; else the output is that of the tool
        )

    def _json_printer(self, path: str, name: str) -> JsonPrinter:
        from kafkalog_cli.output.record_json import RecordJsonOptions, SegmentContext, topic_decode
        from kafkalog_cli.output.record_json_printer import JsonPrinter
        from kafkalog_cli.output.redact import NO_REDACTION

        directory = directory_name(path.rpartition("/")[0] or ("/" if path.startswith("/") else "."))
        context = SegmentContext(directory.topic, directory.partition, name, name.endswith(".kafka"))
        topic = self._tool.decoded_topic or directory.topic
        redaction = self._redaction or NO_REDACTION
        options = RecordJsonOptions(
            redaction, decode=topic_decode(topic), values=self._values.of_topic(directory.topic)
        )
        return JsonPrinter(self._out, context, options)

    def _printer(self, decoder: KeyValueDecoder, name: str, seven_base_offset: int | None) -> SegmentPrinter:
        if seven_base_offset is not None:
            return SevenPrinter(self._out, seven_base_offset, deep=self._deep, contents=self._contents)
        text = LogText(
            decoder=decoder if self._contents else None,
            skip_metadata=self._tool.skip_record_metadata,
            escape=self._out.is_terminal,
            version=self._version,
        )
        return TextPrinter(self._out, text, name, whole_file=self._tool.max_bytes == MAX_INT32)

    @property
    def _decoders(self) -> tuple[str, str]:
        """The names of the decoders of keys and payloads."""
        tool = self._tool
        return tool.key_decoder_class or STRING_DECODER, tool.value_decoder_class or STRING_DECODER

    def _decoder(self) -> KeyValueDecoder | str:
        """Return the decoder of this run, or the unknown decoder's name."""
        topic = self._tool.decoded_topic
        if topic is not None:
            from kafkalog_cli.output.topic_decoders import TopicDecoder

            return self._redacted(TopicDecoder(topic, self._version))
        key, value = self._decoders
        for name in (value, key):
            if name not in DECODERS:
                return name
        return self._redacted(ClassDecoder(DECODERS[key], DECODERS[value]))

    def _redacted(self, decoder: KeyValueDecoder) -> KeyValueDecoder:
        if not self._redaction:
            return decoder
        from kafkalog_cli.output.redact import RedactingDecoder

        return RedactingDecoder(decoder, self._redaction)

    def _shown_path(self, path: str) -> str:
        """Return the path as the real tool prints it; on a terminal without control characters."""
        return printable(path) if self._out.is_terminal or self._messages.is_terminal else path

    def _title(self, text: str) -> None:
        """Print a line about the file; JSON output has this in each object."""
        if not self._is_json:
            self._out.write(text)

    def _fail(self, path: str | None, position: int | None, message: str, kind: str = "") -> None:
        self._out.flush()
        word = kind or ("unreadable" if position is None else "damage")
        self._messages.tell(word, message, path=path, position=position)
        self._codes[-1] = ExitCode.FAILURE

    def _write_summary(self, code: ExitCode) -> None:
        lines = JsonLines(self._out)
        lines.summary(code, files=len(self._codes), batches=self._batch_count, records=self._record_count)
        lines.flush()


def _redaction(text: str | None) -> Redaction | None:
    if text is None:
        return None
    from kafkalog_cli.output.redact import parse_redaction

    return parse_redaction(text)


def java_split(text: str) -> list[str]:
    """Split as Java's `text.split(",")`, which drops empty strings at the end."""
    parts = text.split(",")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts


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


def _wanted_key(options: DumpLogOptions) -> WantedKey | None:
    if options.key is None:
        return None
    from kafkalog_cli.ops.keys import WantedKey

    return WantedKey(options.key, options.values.key_format)

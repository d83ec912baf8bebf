"""`kafkalog read`: print the records of partitions as a consumer would get them."""

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from typer import Argument, Context

from kafkalog_cli.cli.exit_codes import READ
from kafkalog_cli.cli.options import (
    Contents,
    Format,
    IsolationOption,
    Now,
    OneTopic,
    OutputLimits,
    RangeOptions,
    limits_option,
    output_option,
    selection_option,
)
from kafkalog_cli.cli.printed_records import PartitionPrinter, RecordForm, fields_of, record_form_of
from kafkalog_cli.cli.run import Run
from kafkalog_cli.errors import ExitCode, KafkalogError, NoRecordAtTime, UsageError, worst_exit_code
from kafkalog_cli.format.batch import encode_start
from kafkalog_cli.format.limits import DEFAULT_LIMITS
from kafkalog_cli.ops.choices import Isolation
from kafkalog_cli.ops.look.lookup_time import joined_errors
from kafkalog_cli.ops.look.read.events import FoundRecords, NotRead, read_events
from kafkalog_cli.ops.look.read.log_read import LogRead, SegmentRead
from kafkalog_cli.ops.look.read.request import ReadRequest, merged_by_time
from kafkalog_cli.ops.selection import select_of_topics

if TYPE_CHECKING:
    from kafkalog_cli.format.records import RecordBlock
    from kafkalog_cli.format.values.decoder import ValueDecoder
    from kafkalog_cli.log.partition import Partition, Segment
    from kafkalog_cli.ops.keys import WantedKey
    from kafkalog_cli.output.rendering import WriteBytes

EXAMPLES = {
    "Print all records of a topic, merged by timestamp": (
        "kafkalog read /var/lib/kafka --topic orders --merge-by-time --print timestamp,partition,offset,value"
    ),
    "Print the records with one key, in kcat's format": (
        "kafkalog read /var/lib/kafka --topic orders --key customer-7 -f '%p %o: %s\\n'"
    ),
    "Print ten records with keys and offsets": (
        "kafkalog read /var/lib/kafka/orders-0 --from 100 --max-records 10 --print offset,key,value"
    ),
}
EXIT_CODES = READ

DEFAULT_CHUNK_BYTES = 2 << 20
LARGEST_CHUNK_BYTES = (1 << 31) - 3
"""The most bytes that a fetch response can hold."""


MERGE_BYTES = 16 << 20
LEAST_CHUNK_BYTES = 16 << 10
"""A merge reads this much of all partitions at a time, but at least so much of each; or one batch if it is larger.

Compressed batches take several times as much when they are decompressed.
"""


# fmt: off
class ReadOptions(NamedTuple):
    """The options of read."""

    paths: Annotated[list[str], Argument(metavar="PATH...", show_default=False,
        help="Partition directories, or a log directory with --topic. A segment file counts as a partition,"
        " under any name, .gz and .zst too.")]
    topics: OneTopic = OneTopic()
    range: RangeOptions = RangeOptions()
    max_records: Annotated[int | None, selection_option(metavar="N", min=1,
        help="Stop after N records, over all partitions.")] = None
    key: Annotated[str | None, selection_option("--key", metavar="KEY",
        help="Print only records with this key: as --key-format prints it, or bytes (hex:00FF or base64:AP8=).")] = None
    merge_by_time: Annotated[bool, selection_option("--merge-by-time",
        help="Merge the partitions by record timestamp. Without it, one partition follows another. Records of a"
        " partition always keep the order of their offsets.")] = False
    isolation: IsolationOption = Isolation.READ_UNCOMMITTED
    now: Now = None
    print_: Annotated[str | None, output_option("--print", metavar="FIELD,...",
        help="Fields of a line of text: timestamp, partition, offset, epoch, headers, key, value. Default:"
        " value.")] = None
    kcat_format: Annotated[str | None, output_option("-f", metavar="FORMAT",
        help="Print each record in kcat's format: %t topic, %p partition, %o offset, %T timestamp, %k key, %s payload, "
        r"%K and %S their lengths, %h headers; \n, \t, \r, \xHH, \NNN. It adds no line feed.")] = None
    output_format: Format = "text"
    contents: Contents = Contents()
    framing: Annotated[Literal["lines", "fetch"], output_option(
        help="fetch: whole batches as stored, in the fetch responses of 0.7 (MessageSetSend).")] = "lines"
    chunk_bytes: Annotated[int, limits_option(metavar="BYTES", min=1, max=LARGEST_CHUNK_BYTES,
        envvar="KAFKALOG_CHUNK_BYTES",
        help="Bytes to read at a time, also the size of a fetch response. It doubles until one batch"
        " fits.")] = DEFAULT_CHUNK_BYTES
    max_chunk_bytes: Annotated[int, limits_option(metavar="BYTES", min=1, max=LARGEST_CHUNK_BYTES,
        envvar="KAFKALOG_MAX_CHUNK_BYTES",
        help="Largest size of such a read. A larger batch ends the run with exit code"
        " 1.")] = DEFAULT_LIMITS.max_batch_bytes
    limits: OutputLimits = OutputLimits()

    @property
    def is_fetch(self) -> bool:
        """Whether the output has fetch responses in place of lines."""
        return self.framing == "fetch"
# fmt: on


def read(context: Context, options: ReadOptions) -> int:
    """Print the records of partitions as a consumer gets them.

    A log directory with --topic gives all partitions of the topic, in their order. Control records and records before
    the log's start are left out. Damaged batches are left out too: each is reported on stderr, and the exit code is 3
    at the end of the log, else 4.

    With --value-format or --key-format, contents are decoded. Contents that cannot be decoded are printed as they are
    stored. The reason is a warning, and the exit code is 3.
    """
    run = Run(context, options.output_format)
    form = _checked_form(run, options)
    request = _request(run, options)
    run.show_reads(prints_while_reading=True)
    directories = run.directories_of(options.paths)
    partitions = select_of_topics(run.fs, directories, options.topics.selection)
    if options.is_fetch and len(partitions) > 1:
        raise UsageError(reason=f"--framing fetch is for one partition, and {len(partitions)} are selected")
    paths = [partition.path for partition in partitions]
    run.lock_warnings.about_partitions(*paths)
    decoder = run.decoder_of(options.contents.decoding, paths)
    logs = _Logs(run, form, decoder, is_only=len(partitions) == 1)
    is_cut = False
    if options.merge_by_time and len(partitions) > 1:
        is_cut = _print_merged(logs, partitions, request, options.limits.max_output_bytes)
    else:
        _print_in_turn(logs, partitions, request, is_fetch=options.is_fetch)
    logs.end(len(partitions))
    run.codes += [read_log.code() for read_log in logs.opened]
    if len(partitions) == 1:
        return run.end(**logs.opened[0].counts())
    counts = [read_log.named_counts(is_cut=is_cut) for read_log in logs.opened]
    return run.end(records=sum(read_log.records for read_log in logs.opened), partitions=counts)


def _print_in_turn(logs: "_Logs", partitions: "Sequence[Partition]", request: ReadRequest, *, is_fetch: bool) -> None:
    left = request.max_records
    for partition in partitions:
        log = logs.take(partition, request._replace(max_records=left))
        if log is None:
            continue
        if is_fetch:
            log.write_fetches()
        else:
            log.print_records()
        left = None if left is None else left - log.records
        if left == 0:
            return


def _print_merged(logs: "_Logs", partitions: "Sequence[Partition]", request: ReadRequest, most_bytes: int) -> bool:
    """Print the records of all partitions by time; return whether there were more than enough."""
    max_records, records = request.max_records, 0
    chunk_bytes = min(request.chunk_bytes, max(LEAST_CHUNK_BYTES, MERGE_BYTES // len(partitions)))
    request = request._replace(max_records=None, chunk_bytes=chunk_bytes, read_ahead=False)
    for partition in partitions:
        logs.take(partition, request)
    with ExitStack() as stack:
        sources = [stack.enter_context(closing(log.blocks())) for log in logs.opened]
        for number, block in merged_by_time(sources, max_records, most_bytes):
            logs.opened[number].print_block(block)
            records += len(block.records)
    return records == max_records


def _checked_form(run: Run, options: ReadOptions) -> RecordForm:
    """Return how records are printed. Raises UsageError for options that contradict each other."""
    form = record_form_of(run, fields_of(options.print_ or "value"), options.kcat_format)
    options.contents.decoding.check()
    if options.kcat_format is not None and (run.as_json or options.print_ is not None or options.is_fetch):
        raise UsageError(reason="-f cannot be combined with --format json, --print or --framing fetch")
    if not options.is_fetch:
        return form
    if options.contents.decoding:
        raise UsageError(reason="--framing fetch takes bytes as they are stored: no --value-format or --key-format")
    if run.as_json or (options.range.until, options.max_records, options.key) != (None, None, None):
        raise UsageError(
            reason="--framing fetch takes whole batches: no --format json, --until, --max-records or --key"
        )
    if run.out.is_terminal:
        raise UsageError(reason="--framing fetch writes bytes that are not for a terminal")
    return form


def _request(run: Run, options: ReadOptions) -> ReadRequest:
    from kafkalog_cli.ops.keys import WantedKey

    if options.max_chunk_bytes < options.chunk_bytes:
        raise UsageError(reason="--max-chunk-bytes is below --chunk-bytes")
    bounds = options.range.bounds(run.environment, options.now, "read")
    key = None if options.key is None else WantedKey(options.key, options.contents.key_format)
    return ReadRequest(
        *bounds, options.max_records, options.isolation,
        options.limits.limits(options.max_chunk_bytes), options.chunk_bytes, key=key,
    )  # fmt: skip


class _Logs:
    """Opens the logs of partitions. What keeps one of several from being read is reported, and ends no other."""

    def __init__(self, run: Run, form: RecordForm, decoder: "ValueDecoder | None", *, is_only: bool) -> None:
        self._run, self._form, self._decoder, self._is_only = run, form, decoder, is_only
        self.opened: list[_Read] = []
        self._outside: list[NoRecordAtTime] = []
        self._keys: list[tuple[str, WantedKey]] = []

    def take(self, partition: "Partition", request: ReadRequest) -> "_Read | None":
        """Return the log of a partition; None if it cannot be read, or has no record of the time.

        Raises as LogRead if it is the only partition.
        """
        if request.key is not None:
            key = request.key.with_decoder(self._decoder).in_topic(partition.topic)
            self._keys.append((partition.path, key))
            request = request._replace(key=key)
        try:
            log = LogRead(self._run.fs, partition, request)
        except (KafkalogError, OSError) as error:
            if self._is_only:
                raise
            if isinstance(error, NoRecordAtTime):
                self._outside.append(error)
            else:
                self._run.fail(error, partition.path)
            return None
        printer = PartitionPrinter(self._run, partition, self._form, self._decoder)
        self.opened.append(_Read(log, printer, self._run.out.write_bytes))
        return self.opened[-1]

    def end(self, partitions: int) -> None:
        """Report partitions without a record at the time, if none has such a record, and keys that were not decoded."""
        run = self._run
        if self._outside and len(self._outside) == partitions:
            for error in joined_errors(self._outside):
                run.fail(error)
        elif self._outside:
            run.codes.append(ExitCode.OK)
        for path, key in self._keys:
            if run.report_undecoded(key.undecoded, path):
                run.codes.append(ExitCode.WARNINGS)


class _Read:
    """A partition that is read: its log, and the number of records that were printed of it."""

    def __init__(self, log: LogRead, printer: PartitionPrinter, write: "WriteBytes") -> None:
        self._log, self._printer, self._write = log, printer, write
        self._segment: Segment | None = None
        self._merged_end: int | None = None
        self._has_failed = False
        self.records = 0

    def print_records(self) -> None:
        """Print all records, segment after segment."""
        for found in self._found(lambda segment: segment.blocks(self._printer.lines(segment.segment).ahead)):
            self._printer.lines(found.segment).write(found.found, self._write)
        self.records = self._log.shown_records

    def write_fetches(self) -> None:
        """Write all batches as fetch responses."""
        for found in self._found(lambda segment: segment.fetches()):
            self._write(encode_start(len(found.found)))
            self._write(found.found)

    def blocks(self) -> "Generator[RecordBlock, None, None]":
        """Yield all records without printing them."""
        self._merged_end = self._log.first_offset
        for found in self._found(lambda segment: segment.blocks()):
            self._segment = found.segment
            yield found.found

    def print_block(self, block: "RecordBlock") -> None:
        """Print records of the last block that `blocks` returned."""
        assert self._segment is not None
        self._printer.lines(self._segment).write(block, self._write)
        self.records += len(block.records)
        self._merged_end = int(block.records.offset[len(block.records) - 1]) + 1

    def _found(
        self, items: "Callable[[SegmentRead], Generator[Any, None, None]]"
    ) -> "Generator[FoundRecords, None, None]":
        """Yield what `items` returns of each segment, and report what was not read."""
        for event in read_events(self._log, items):
            if isinstance(event, FoundRecords):
                yield event
            else:
                self._has_failed |= isinstance(event, NotRead)
                self._printer.report(event)

    def code(self) -> ExitCode:
        """Report contents that were not decoded; return the exit code: FAILURE if a segment was not read."""
        codes = {*self._log.codes, *((ExitCode.WARNINGS,) if self._printer.report_undecoded() else ())}
        return ExitCode.FAILURE if self._has_failed else worst_exit_code(codes)

    def counts(self, *, is_cut: bool = False) -> dict[str, int | None]:
        """Return the members of the summary. `is_cut`: a merge ended before all records of `blocks` were printed."""
        log = self._log
        return {
            "records": self.records,
            "next_offset": self._merged_end if is_cut and self._merged_end is not None else log.next_offset,
            "log_start_offset": log.bounds.start,
            "log_end_offset": log.bounds.end,
            "last_stable_offset": log.last_stable_offset,
        }

    def named_counts(self, *, is_cut: bool) -> dict[str, object]:
        """Return the members of the summary, with the topic and the number of the partition."""
        directory = self._log.partition.directory
        return {"topic": directory.topic, "partition": directory.partition, **self.counts(is_cut=is_cut)}

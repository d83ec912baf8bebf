"""`kafkalog read`: print the records of partitions as a consumer would get them."""

from enum import Enum
from typing import Annotated, NamedTuple

from typer import Argument, Context

from kafkalog_cli.cli.exit_codes import READ
from kafkalog_cli.cli.option_groups import Contents, OneTopic, OutputLimits, RangeOptions
from kafkalog_cli.cli.options import (
    Format,
    IsolationOption,
    Now,
    OutputFormat,
    limits_option,
    output_option,
    selection_option,
)
from kafkalog_cli.cli.run import Run
from kafkalog_cli.format.limits import DEFAULT_LIMITS
from kafkalog_cli.ops.choices import Isolation

EXAMPLES = (
    (
        "Print all records of a topic, merged by timestamp",
        "kafkalog read /var/lib/kafka --topic orders --merge-by-time --print timestamp,partition,offset,value",
    ),
    (
        "Print the records with one key, in kcat's format",
        "kafkalog read /var/lib/kafka --topic orders --key customer-7 -f '%p %o: %s\\n'",
    ),
    (
        "Print ten records with keys and offsets",
        "kafkalog read /var/lib/kafka/orders-0 --from 100 --max-records 10 --print offset,key,value",
    ),
)
EXIT_CODES = READ

DEFAULT_CHUNK_BYTES = 2 << 20
LARGEST_CHUNK_BYTES = (1 << 31) - 3
"""The most bytes that a fetch response can hold."""


class Framing(Enum):
    """The form of the output: lines, or fetch responses."""

    LINES = "lines"
    FETCH = "fetch"


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
    output_format: Format = OutputFormat.TEXT
    contents: Contents = Contents()
    framing: Annotated[Framing, output_option(
        help="fetch: whole batches as stored, in the fetch responses of 0.7 (MessageSetSend).")] = Framing.LINES
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
        return self.framing is Framing.FETCH
# fmt: on


def read(context: Context, options: ReadOptions) -> int:
    """Print the records of partitions as a consumer gets them.

    A log directory with --topic gives all partitions of the topic, in their order. Control records and records before
    the log's start are left out. Damaged batches are left out too: each is reported on stderr, and the exit code is 3
    at the end of the log, else 4.

    With --value-format or --key-format, contents are decoded. Contents that cannot be decoded are printed as they are
    stored. The reason is a warning, and the exit code is 3.
    """
    from kafkalog_cli.cli.read_run import ReadRun

    run = Run(context, options.output_format)
    run.show_reads(prints_while_reading=True)
    return ReadRun(run, options._replace(paths=run.directories_of(options.paths))).run()

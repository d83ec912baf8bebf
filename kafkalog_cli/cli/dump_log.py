"""`kafkalog dump-log`: kafka-dump-log's options and text, for files, directories and globs."""

from typing import Annotated, Any, NamedTuple

from typer import Context, Exit, echo

from kafkalog_cli.cli.commands import Command
from kafkalog_cli.cli.exit_codes import READ
from kafkalog_cli.cli.kafka_dump_log import ToolOptions, as_the_real_tool, tool_flag, tool_option
from kafkalog_cli.cli.option_groups import Contents, DecodingLimits, ReadTopics, WantedRange
from kafkalog_cli.cli.options import Format, Now, OutputFormat, PathsArgument, output_option, selection_option
from kafkalog_cli.format.internal_topics.schema import NEWEST, kafka_version_of

EXAMPLES = (
    (
        "Print the batches and records of a segment",
        "kafkalog dump-log --files /var/lib/kafka/orders-0/00000000000000000000.log --print-data-log",
    ),
    (
        "Print records of one partition by their offsets",
        "kafkalog dump-log /var/lib/kafka/orders-0 --print-data-log --from-offset 100 --to-offset 110",
    ),
    (
        "Print all records with a key as NDJSON, without their values",
        "kafkalog dump-log /var/lib/kafka --topic orders --key customer-7 --format json --redact values",
    ),
)
EXIT_CODES = READ


def _version(context: Context, value: bool) -> None:
    if value:
        echo(kafka_version_of(context.params.get("kafka_version") or NEWEST.value).release)
        raise Exit


# fmt: off
class DumpLogOptions(NamedTuple):
    """The options of dump-log."""

    paths: PathsArgument = None
    tool: ToolOptions = ToolOptions()
    version: Annotated[bool, tool_option("--version", callback=_version, is_eager=True,
        help="Print the version of kafka-dump-log whose text is printed, and exit.")] = False
    kafka_version: Annotated[str, output_option("--kafka-version", is_eager=True, metavar="VERSION",
        envvar="KAFKALOG_KAFKA_VERSION",
        help="Print the text of kafka-dump-log 4.2, 4.3 or 4.4.")] = NEWEST.value
    topics: ReadTopics = ReadTopics()
    range: WantedRange = WantedRange()
    key: Annotated[str | None, selection_option("--key", metavar="KEY",
        help="Print only records with this key: as --key-format prints it, or bytes as hex:00FF or base64:AP8=. Implies"
        " --deep-iteration.")] = None
    max_records: Annotated[int | None, selection_option(metavar="N", min=1, help="Stop after N records.")] = None
    now: Now = None
    strict: Annotated[bool, tool_flag("strict", "Exit with 3 on tail damage and with 4 on corruption.")] = False
    resync: Annotated[bool, tool_flag("resync", "Continue after damage with the next valid batch of the file.")] = False
    output_format: Format = OutputFormat.TEXT
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
        return self.tool.deep_iteration or self.contents or self.output_format.is_json or self.key is not None
# fmt: on


def dump_log(context: Context, options: DumpLogOptions) -> int:
    """Print segments as kafka-dump-log does.

    With the options of kafka-dump-log, the text is the same, byte for byte. Directories, globs,
    ranges of offsets and times, and NDJSON are additions. The exit code is 1 if a file could not be read to its end.
    """
    from kafkalog_cli.cli.dump_log_run import DumpLogRun

    return DumpLogRun(context.obj, options).run()


class Parser(Command):
    """Takes what jopt-simple takes, the option parser of kafka-dump-log."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: D102
        return super().parse_args(ctx, as_the_real_tool(args))

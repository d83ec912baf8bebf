"""`kafkalog dump-log`: kafka-dump-log's options and text, for files, directories and globs."""

from typing import Annotated, NamedTuple

from kafkalog_cli.cli.declared import Answered, Command, CommandContext
from kafkalog_cli.cli.groups import Contents, DecodingLimits, ReadTopics, WantedRange
from kafkalog_cli.cli.kafka_dump_log import ToolOptions, as_the_real_tool, tool_flag, tool_option
from kafkalog_cli.cli.options import Format, Now, OutputFormat, PathsArgument, output_option, selection_option
from kafkalog_cli.format.internal_topics.schema import NEWEST, kafka_version_of


def _version(context: CommandContext, value: bool) -> None:
    if value:
        raise Answered(kafka_version_of(context.values.get("kafka_version") or NEWEST.value).release)


# fmt: off
class DumpLogOptions(NamedTuple):
    """The options of dump-log."""

    paths: PathsArgument = None
    tool: ToolOptions = ToolOptions()
    version: Annotated[bool, tool_option("--version", callback=_version, is_eager=True,
        help="Print the version of kafka-dump-log whose text is printed, and exit.")] = False
    kafka_version: Annotated[str, output_option("--kafka-version", is_eager=True, metavar="VERSION",
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
    redact: Annotated[str | None, output_option(metavar="WHAT",
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


def dump_log(context: CommandContext, options: DumpLogOptions) -> int:
    """Print segments as kafka-dump-log does.

    With the options of kafka-dump-log, the text is the same, byte for byte. Directories, globs,
    ranges of offsets and times, and NDJSON are additions. The exit code is 1 if a file could not be read to its end.
    """
    from kafkalog_cli.cli.dump_log_run import DumpLogRun

    return DumpLogRun(context.environment, options).run()


command = Command(dump_log, as_the_real_tool)

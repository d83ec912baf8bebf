"""`kafkalog dump-log`: kafka-dump-log's options and text, for files, directories and globs."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

from kafkalog_cli.cli.declared import Answered, Command, CommandContext, Option
from kafkalog_cli.cli.groups import Contents, DecodingLimits, ReadTopics, WantedRange
from kafkalog_cli.cli.options import Format, Now, OutputFormat, PathsArgument, output_option, selection_option
from kafkalog_cli.errors import UsageError
from kafkalog_cli.format.internal_topics.schema import NEWEST, kafka_version_of

if TYPE_CHECKING:
    from kafkalog_cli.output.redact import Redaction

DEFAULT_DECODER = "org.apache.kafka.tools.api.StringDecoder"

_ONCE = ("--files", "--max-bytes", "--max-message-size", "--key-decoder-class", "--value-decoder-class")
_OPTIONAL_ARGUMENT = ("--key-decoder-class", "--value-decoder-class")
_tool_option = partial(Option, rich_help_panel="Options of kafka-dump-log")


def _as_the_real_tool(words: list[str]) -> list[str]:
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


def _version(context: CommandContext, value: bool) -> None:
    if value:
        raise Answered(kafka_version_of(context.values.get("kafka_version") or NEWEST.value).release)


def _redaction(text: str | None) -> "Redaction | None":
    if text is None:
        return None
    from kafkalog_cli.output.redact import parse_redaction

    return parse_redaction(text)


def _flag(name: str, text: str) -> Option:
    return _tool_option(f"--{name}", help=text)


def _decoder_option(name: str, what: str) -> Option:
    return _tool_option(
        f"--{name}-decoder-class",
        metavar="[CLASS]",
        help=f"Decoder of the {what}: a class of the real tool (its argument may be left out: StringDecoder), or "
        "string, int, long, short, double, float, uuid, hex, base64, json. Implies --print-data-log.",
    )


def dump_log(  # noqa: PLR0913 the real tool has these options
    context: CommandContext,
    *,
    paths: PathsArgument = None,
    files: Annotated[str | None, _tool_option(metavar="FILE,...", help="Files to dump, comma separated.")] = None,
    print_data_log: Annotated[bool, _flag("print-data-log", "Print keys and payloads too.")] = False,
    deep_iteration: Annotated[bool, _flag("deep-iteration", "Print records, not only batches.")] = False,
    key_decoder_class: Annotated[str | None, _decoder_option("key", "keys")] = None,
    value_decoder_class: Annotated[str | None, _decoder_option("value", "payloads")] = None,
    offsets_decoder: Annotated[bool, _flag("offsets-decoder", "Decode as __consumer_offsets.")] = False,
    transaction_log_decoder: Annotated[
        bool, _flag("transaction-log-decoder", "Decode as __transaction_state.")] = False,
    cluster_metadata_decoder: Annotated[
        bool, _flag("cluster-metadata-decoder", "Decode as __cluster_metadata.")] = False,
    remote_log_metadata_decoder: Annotated[
        bool, _flag("remote-log-metadata-decoder", "Decode as __remote_log_metadata.")] = False,
    share_group_state_decoder: Annotated[
        bool, _flag("share-group-state-decoder", "Decode as __share_group_state.")] = False,
    skip_record_metadata: Annotated[
        bool, _flag("skip-record-metadata", "Leave out record metadata; also leaves out control records.")] = False,
    max_bytes: Annotated[int, _tool_option(metavar="BYTES",
        help="Read only batches that end within the first BYTES of each file.")] = (1 << 31) - 1,
    max_message_size: Annotated[int, _tool_option(metavar="BYTES",
        help="Bytes read at an index entry's position to find its batch.")] = 5 << 20,
    index_sanity_check: Annotated[
        bool, _flag("index-sanity-check", "Only check indexes as brokers did at start.")] = False,
    verify_index_only: Annotated[bool, _flag("verify-index-only", "Check indexes, print no entries.")] = False,
    version: Annotated[bool, _tool_option("--version", callback=_version, is_eager=True,
        help="Print the version of kafka-dump-log whose text is printed, and exit.")] = False,
    kafka_version: Annotated[str, output_option("--kafka-version", is_eager=True, metavar="VERSION",
        help="Print the text of kafka-dump-log 4.2, 4.3 or 4.4.")] = NEWEST.value,
    topics: ReadTopics,
    range_: WantedRange,
    key: Annotated[str | None, selection_option("--key", metavar="KEY",
        help="Print only records with this key (UTF-8). Implies --deep-iteration.")] = None,
    max_records: Annotated[int | None, selection_option(metavar="N", min=1, help="Stop after N records.")] = None,
    now: Now = None,
    strict: Annotated[bool, _flag("strict", "Exit with 3 on tail damage and with 4 on corruption.")] = False,
    resync: Annotated[bool, _flag("resync", "Continue after damage with the next valid batch of the file.")] = False,
    output_format: Format = OutputFormat.TEXT,
    values: Contents,
    redact: Annotated[str | None, output_option(metavar="WHAT",
        help="Leave out contents: keys,values,headers[=hash|len]. Keys of headers stay.")] = None,
    decoding: DecodingLimits,
) -> int:  # fmt: skip
    """Print segments as kafka-dump-log does.

    With the options of kafka-dump-log, the text is the same, byte for byte. Directories, globs,
    ranges of offsets and times, and NDJSON are additions. The exit code is 1 if a file could not be read to its end.
    """
    from kafkalog_cli.cli.dump_log_run import DumpLogRun, DumpRequest

    topic = next((name for name, is_wanted in (  # in the order of precedence of the real tool
        ("__consumer_offsets", offsets_decoder),
        ("__transaction_state", transaction_log_decoder),
        ("__cluster_metadata", cluster_metadata_decoder),
        ("__remote_log_metadata", remote_log_metadata_decoder),
        ("__share_group_state", share_group_state_decoder),
    ) if is_wanted), None)  # fmt: skip
    environment = context.environment
    is_json = output_format.is_json
    contents = print_data_log or topic is not None or bool(key_decoder_class or value_decoder_class)
    request = DumpRequest(
        contents=contents,
        deep=deep_iteration or contents or is_json or key is not None,
        skip_metadata=skip_record_metadata,
        decoded_topic=topic,
        key_decoder=key_decoder_class or DEFAULT_DECODER,
        value_decoder=value_decoder_class or DEFAULT_DECODER,
        max_bytes=max_bytes,
        max_message_bytes=max_message_size,
        sanity_only=index_sanity_check,
        verify_only=verify_index_only,
        limits=decoding.limits,
        strict=strict,
        resync=resync,
        is_json=is_json,
        redaction=_redaction(redact),
        wanted=range_.wanted(environment, now, key),
        max_records=max_records,
        version=kafka_version_of(kafka_version),
        decoding=values.decoding,
    )
    return DumpLogRun(environment, request).run(files, paths or [], topics.selection)


command = Command(dump_log, _as_the_real_tool)

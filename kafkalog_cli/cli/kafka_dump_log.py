"""The options of kafka-dump-log, and how it reads its command line."""

from functools import partial
from typing import Annotated, Any, NamedTuple

from typer import Option

from kafkalog_cli.errors import UsageError

DEFAULT_DECODER = "org.apache.kafka.tools.api.StringDecoder"

_ONCE = ("--files", "--max-bytes", "--max-message-size", "--key-decoder-class", "--value-decoder-class")
_OPTIONAL_ARGUMENT = ("--key-decoder-class", "--value-decoder-class")
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
# fmt: on

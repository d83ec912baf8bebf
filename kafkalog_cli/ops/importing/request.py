"""The request to import: input, topics, and how the records are written."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from shlex import split
from typing import Any

from kafkalog_cli.errors import UsageError, as_typed
from kafkalog_cli.format.kafka_uuid import canonical_uuid
from kafkalog_cli.ops.append.batching import Writing
from kafkalog_cli.ops.append.making import is_topic_id
from kafkalog_cli.ops.importing.inputs import InputFile

_MOST_PARTITIONS = 1 << 20


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """The options of an import.

    `topic` None: the input names the topics. `topic_ids` are by topic, "" for the only topic. `partitions` is a number
    of partitions, to which rows go by their keys; None: the input names them. `codec` None: a batch keeps the codec of
    the batch that its records come from, if the input names it. `new_offsets`: offsets start at 0, else the input's
    offsets are kept, if it has any. `prove`: read back what was built, and compare.
    """

    topic: str | None = None
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    partitions: int | None = None
    new_offsets: bool = False
    codec: str | None = None
    compression_level: int | None = None
    batch_bytes: int = 16_384
    prove: bool = False
    replace_empty: bool = False
    single_replica: bool = False

    def check(self) -> None:
        """Raise UsageError if options contradict each other."""
        self.writing(keep_offsets=False).check(lambda name: f"--{name.replace('_', '-')}")
        if self.compression_level is not None and self.codec is None:
            raise UsageError(reason="--compression-level needs a --codec")
        if self.partitions is not None and not 0 < self.partitions <= _MOST_PARTITIONS:
            raise UsageError(reason=f"--partitions {self.partitions} is not from 1 to {_MOST_PARTITIONS}")
        if "" in self.topic_ids and len(self.topic_ids) > 1:
            raise UsageError(reason="--topic-id: give one ID, or TOPIC=ID for each topic")

    def writing(self, *, keep_offsets: bool) -> Writing:
        """Return how batches are made."""
        return Writing(
            codec=self.codec or "none",
            compression_level=self.compression_level,
            batch_bytes=self.batch_bytes,
            keep_offsets=keep_offsets,
        )

    def keeps_offsets(self, files: Sequence[InputFile]) -> bool:
        """Whether offsets are kept. Raises UsageError if only some of the files have them."""
        if self.new_offsets or self.partitions is not None:
            return False
        having = [file for file in files if file.has_offsets]
        if having and len(having) < len(files):
            other = next(file for file in files if not file.has_offsets)
            raise UsageError(
                reason=(
                    f"{having[0].path} has offsets, {other.path} has none: --new-offsets gives all records new offsets"
                )
            )
        return bool(having)


def command_of(inputs: Sequence[str], request: ImportRequest, config: Sequence[str]) -> list[str]:
    """Return words that identify an import into a log directory; `inputs` are full paths."""
    return [*inputs, str(request), str(tuple(config))]


def inputs_of(command: Sequence[str]) -> Sequence[str]:
    """Return the inputs from the words of `command_of`; none for a DataFrame, which has no such words."""
    return command[:-2]


_OPTIONS = frozenset((
    "--log-dir", "--topic", "--topic-id", "--partitions", "--codec", "--compression-level", "--batch-bytes", "--config",
    "--broker-config", "--metadata", "--now", "--wait", "--format",
))  # fmt: skip
_FLAGS = frozenset(("--new-offsets", "--prove", "--replace-empty", "--single-replica", "--quiet"))


def repeated_command(what: Mapping[str, Any], log_dir: str) -> str:
    """Return the command that continues a committed import, by the record of the import in `log_dir`; "" for none.

    Anybody who may write there may have written the record, and somebody with more rights pastes the command. So it is
    an import into this directory, and has no option that runs programs, such as --conf.
    """
    try:
        words = split(what.get("repeat", ""))
    except ValueError:
        return ""
    target, rest = None, iter(words[2:])
    for word in rest:
        name, equals, value = word.partition("=")
        if name in _OPTIONS:
            value = value if equals else next(rest, "")
            target = value if name == "--log-dir" else target
        elif word.startswith("-") and word not in _FLAGS:
            return ""
    if words[:2] != ["kafkalog", "import"] or target is None or os.path.realpath(target) != os.path.realpath(log_dir):
        return ""
    return " ".join(map(as_typed, words))


def topic_ids(given: Sequence[str]) -> dict[str, str]:
    """Parse `TOPIC=ID` or `ID` (for which the topic is "") into ids by topic, as Kafka writes them.

    Raises UsageError.
    """
    found = {}
    for one in given:
        topic, _, text = one.rpartition("=") if not is_topic_id(one) else ("", "", one)
        if not is_topic_id(text):
            raise UsageError(reason=f"--topic-id {one}: {text} is not a topic id")
        if topic in found:
            raise UsageError(reason=f"--topic-id {one}: the topic already has an id")
        canonical = canonical_uuid(text)
        assert canonical is not None
        found[topic] = canonical
    return found

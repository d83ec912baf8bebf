"""Next steps of findings and remarks: commands whose placeholders are filled in, and steps that depend on replicas."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_cli.disk.names import place_outside
from kafkalog_cli.errors import shell_word
from kafkalog_cli.log.partition import directory_name
from kafkalog_cli.ops.partition_facts import Replication
from kafkalog_cli.ops.settings import SettingsSource

if TYPE_CHECKING:
    from kafkalog_cli.ops.plans import ChangePlan, Remark

REPLICATE = (
    "stop the broker and move the directory away: `mv -nT PATH PATH_AWAY`. The broker replicates the partition when"
    " it starts"
)


class ByReplicas(NamedTuple):
    """A next step that depends on whether other replicas are in sync: `alone` is for the last replica in sync."""

    alone: str
    others: str

    @property
    def text(self) -> str:
        """Both steps, for a partition whose replicas are not known."""
        return f"if no other replica is in sync, {self.alone}. If another replica is in sync, {self.others}"

    def known(self, replication: Replication) -> str | None:
        """Return the step for these replicas; None if the metadata log does not decide between the two."""
        here = replication.broker_id
        if here is None and len(replication.replicas) > 1:
            return None
        others = ", ".join(str(broker) for broker in replication.isr if broker != here and here is not None)
        return (
            f"in sync elsewhere ({others}): {self.others}" if others else f"no other replica is in sync: {self.alone}"
        )


SALVAGE = ByReplicas("copy the readable batches to ./salvaged: `kafkalog recover PATH --salvage salvaged`", REPLICATE)
"""For damage that `recover` does not repair, because valid batches follow it."""

NO_COPY_OF_SEVEN = (
    "nothing can be done to the file: offsets of Kafka 0.7 are byte positions, which a copy without the damage would"
    " change. `kafkalog read PATH` prints the messages that can be read"
)
"""As SALVAGE, for a partition of Kafka 0.7."""

EPOCHS_STAY = ByReplicas(
    "nothing has to be done: consumers get the records as they are, and a copy has the same epochs", REPLICATE
)

CUT_ACKNOWLEDGED = ByReplicas("`kafkalog recover PATH` cuts it off and keeps the bytes", REPLICATE)

LOWER_WATERMARK = ByReplicas(
    "`kafkalog recover PATH` lowers the line as a broker would",
    "start their brokers before this broker. `kafkalog recover PATH` lowers the line, as this broker would",
)

_BY_REPLICAS = (SALVAGE, EPOCHS_STAY, CUT_ACKNOWLEDGED, LOWER_WATERMARK)


def chosen(step: str, replication: Replication | None) -> str:
    """Return the step, with the alternatives that depend on replicas decided if the replicas are known."""
    for choice in _BY_REPLICAS if replication is not None else ():
        assert replication is not None
        step = step.replace(choice.text, choice.known(replication) or choice.text)
    return step


def filled(step: str, path: str, file: str, metadata: str | None = None) -> str:
    """Return the step with the placeholders in its commands filled in, ready to paste.

    PATH becomes `path`, the path of a partition or a log directory. PATH_AWAY becomes a place for `path` outside its
    parent directory. FILE becomes `file`, and FILE_AWAY such a place for it. FILE_ASIDE becomes a name that brokers
    ignore. `metadata`: the value of `--metadata`, which is added to commands that read the metadata log.
    """
    words = {
        "PATH": path,
        "PATH_AWAY": place_outside(path),
        "FILE": file,
        "FILE_AWAY": place_outside(file),
        "FILE_ASIDE": f"{file}.aside",
    }
    directory = directory_name(path)
    if directory.is_metadata_log and _REPLACES.search(step):
        step = AS_A_NODE
    if directory.topic is None:  # no broker replicates a directory of another name
        for choice in _BY_REPLICAS:
            step = step.replace(choice.text, choice.alone) if choice.others == REPLICATE else step
    parts = step.split("`")
    # Names that were filled in earlier may contain placeholders, but they are quoted. Commands are every second part,
    # because `shell_word` leaves no backtick in a name.
    parts[1::2] = (_filled_command(part, words, metadata) for part in parts[1::2])
    return "`".join(parts)


def with_next_steps(
    plan: ChangePlan, replication: Replication | None = None, metadata: str | None = None
) -> tuple[Remark, ...]:
    """Return the remarks of a plan, with the placeholders of their next steps filled in; see `chosen` and `filled`."""
    return tuple(
        one._replace(next_step=filled(chosen(one.next_step, replication), plan.path, one.path, metadata))
        for one in plan.remarks
    )


_PLACEHOLDER = re.compile(r"""'[^']*'|"'"|(?<!\S)(?:PATH|FILE)(?:_AWAY|_ASIDE)?(?!\S)""")
"""Matches what is quoted, or a placeholder that is a word."""

AS_A_NODE = "`kafkalog verify PATH` says what the node does with its metadata log, and which steps are safe"

_REPLACES = re.compile(r"mv -nT PATH PATH_AWAY|kafkalog recover PATH|copy the other replica")
"""Matches steps of ordinary partitions that would leave a node without its vote and its snapshots."""

_READS_METADATA = re.compile(r"kafkalog (?:recover|verify) PATH(?!\S)")


def _filled_command(command: str, words: Mapping[str, str], metadata: str | None) -> str:
    more = ""
    if metadata is not None and _READS_METADATA.match(command) and "--metadata" not in command:
        more = f" --metadata {shell_word(metadata)}"
    return _PLACEHOLDER.sub(lambda one: _filled(one.group(), words), command) + more


def _filled(text: str, words: Mapping[str, str]) -> str:
    return shell_word(words[text]) if text in words else text


def recover_command(path: str, log_dir: str | None, settings: SettingsSource) -> str:
    """Return the command `kafkalog recover` for the partition at `path`.

    It names the metadata log, unless kafkalog finds the metadata log by itself. Raises as `SettingsSource.metadata`.
    """
    option = settings.metadata_option
    if option is None and settings.metadata(log_dir) is None:
        option = "DIR"
    metadata = "" if option is None else f" --metadata {shell_word(option)}"
    return f"kafkalog recover {shell_word(path)}{metadata}"

"""The state of share partitions as a share coordinator has it after loading a partition of `__share_group_state`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.ops.tables.coordinator_log import CoordinatorEntry

_UNSET = -1
ShareKey = tuple[str, str, int]
"""A group id, a topic id and a partition."""


class SharePartition(NamedTuple):
    """A share partition: records below `start_offset` are done, and `complete_count` records at or above it too.

    A value is None if the group has not initialized it.
    """

    start_offset: int | None
    leader_epoch: int | None
    complete_count: int | None


def share_partitions(entries: Iterable[CoordinatorEntry]) -> dict[ShareKey, SharePartition]:
    """Return the share partitions after a replay (ShareCoordinatorShard.replay): snapshots, and updates of them."""
    found: dict[ShareKey, SharePartition] = {}
    for entry in entries:
        if entry.record is None:
            continue
        key, value = entry.record.key, entry.record.value
        name = (key["groupId"], key["topicId"], key["partition"])
        if value is None:
            found.pop(name, None)
        elif entry.record.name == "ShareSnapshot":
            found[name] = _partition(value)
        elif name in found:
            old, new = found[name], _partition(value)
            found[name] = SharePartition(
                *(before if after is None else after for before, after in zip(old, new, strict=True))
            )
    return found


def _partition(value: Message) -> SharePartition:
    numbers = (value["startOffset"], value["leaderEpoch"], value.get("deliveryCompleteCount", _UNSET))
    return SharePartition(*(None if number == _UNSET else number for number in numbers))

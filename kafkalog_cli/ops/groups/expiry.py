"""When a broker removes committed offsets: offsets.retention.minutes after the last use (OffsetExpirationCondition)."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import UsageError
from kafkalog_cli.log.settings.topic_config import read_broker_properties
from kafkalog_cli.ops.tables.committed_offsets import CommittedOffset
from kafkalog_cli.ops.tables.groups import CLASSIC, CONSUMER, Group, GroupState

_MINUTE_MS = 60_000
_NAME = "offsets.retention.minutes"
_DEFAULT_MINUTES = 7 * 24 * 60


class OffsetsRetention(NamedTuple):
    """The time for which a broker keeps committed offsets. `is_known`: the broker's own configuration was read."""

    retention_ms: int = _DEFAULT_MINUTES * _MINUTE_MS
    is_known: bool = False

    @property
    def text(self) -> str:
        """The setting and its source."""
        source = "--broker-config" if self.is_known else "Kafka's default; --broker-config FILE names the broker's"
        return f"{_NAME}={self.retention_ms // _MINUTE_MS} ({source})"


DEFAULT_RETENTION = OffsetsRetention()


def offsets_retention(fs: Filesystem, broker_config: str | None) -> OffsetsRetention:
    """Return the retention of a server.properties (None: Kafka's default). Raises as `read_broker_properties`."""
    if broker_config is None:
        return DEFAULT_RETENTION
    text = read_broker_properties(fs, broker_config).get(_NAME)
    if text is None:
        return OffsetsRetention(is_known=True)
    if not text.strip().isdecimal() or int(text) < 1:
        raise UsageError(reason=f"--broker-config {broker_config}: {_NAME}={text} is not a number above 0")
    return OffsetsRetention(int(text) * _MINUTE_MS, is_known=True)


def expires_at_ms(
    offset: CommittedOffset,
    group: Group | None,
    state: GroupState,
    subscribed: Collection[str] | None,
    retention: OffsetsRetention,
) -> int | None:
    """Return the time in epoch ms from which a broker removes an offset; None while it does not expire.

    `group` None: only offsets of the group are known, as of a consumer that assigns partitions itself. `subscribed`
    are the topics that the group's members read, None if they are not known.
    """
    if group is not None and (subscribed is None or offset.topic in subscribed):
        return None
    base = offset.commit_timestamp
    if group is not None and group.group_type == CLASSIC and group.protocol_type:
        if state is GroupState.EMPTY:
            base = offset.commit_timestamp if group.state_timestamp is None else group.state_timestamp
        elif group.protocol_type != CONSUMER:
            return None
    if offset.expire_timestamp is not None:
        return offset.expire_timestamp
    return None if base is None else base + retention.retention_ms

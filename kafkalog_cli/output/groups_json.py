"""The JSON output of groups: an object per group, with its members and offsets."""

from __future__ import annotations

from typing import Any

from kafkalog_cli.ops.groups.describe import GroupDescription, GroupOffset, MemberDescription
from kafkalog_cli.output.ndjson import json_path

GROUP = "kafkalog.group/1"

Object = dict[str, Any]


def group_object(described: GroupDescription) -> Object:
    """Return the fields of `kafkalog.group/1`."""
    group, loaded = described.group, described.loaded
    return {
        "group_id": described.group_id,
        "group_type": described.group_type,
        "state": described.state.value,
        "epoch": None if group is None else group.epoch,
        "assignment_epoch": described.assignment_epoch,
        "protocol_type": None if group is None else group.protocol_type,
        "protocol": None if group is None else group.protocol,
        "leader": None if group is None else group.leader,
        "state_timestamp_ms": None if group is None else group.state_timestamp,
        "coordinator": {
            **json_path(loaded.copy.partition.path),
            "partition": loaded.number,
            "belongs_in": described.belongs_in,
            "end_offset": loaded.copy.bounds.next_offset,
            "other_copies": [json_path(copy.partition.path) for copy in loaded.others],
        },
        "members": [_member(one) for one in described.members],
        "offsets": [_offset(row) for row in described.offsets],
    }


def _member(one: MemberDescription) -> Object:
    member = one.member
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "rack_id": member.rack_id,
        "client_id": member.client_id,
        "host": member.client_host,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "epoch": member.member_epoch,
        "state": member.member_state,
        "subscribed_topics": member.subscribed_topics,
        "subscribed_topic_regex": member.subscribed_topic_regex,
        "assignment": [{"topic": owned.topic, "partitions": owned.partitions} for owned in one.owned],
    }


def _offset(row: GroupOffset) -> Object:
    return {
        "topic": row.topic,
        "partition": row.partition,
        "current_offset": row.offset,
        "log_end_offset": row.log_end_offset,
        "lag": row.lag,
        "member_id": None if row.member is None else row.member.member_id,
        "leader_epoch": row.leader_epoch,
        "metadata": row.metadata,
        "commit_timestamp_ms": row.commit_timestamp,
        "expires_at_ms": row.expires_at_ms,
        "pending_offset": row.pending_offset,
        "log": None if row.log_path is None else json_path(row.log_path),
    }

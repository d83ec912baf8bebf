"""The table of the served APIs except for ApiVersions: Kafka's name of each, and the function that answers it.

Keys, versions and schemas are those of `format/protocol/messages.json`.
"""

from collections.abc import Mapping
from types import MappingProxyType

from kafkalog_cli.ops.serve import (
    answer_changes,
    answer_cluster,
    answer_commits,
    answer_configs,
    answer_consumer_groups,
    answer_fetch,
    answer_groups,
    answer_log_dirs,
    answer_members,
    answer_offsets,
    answer_transactions,
)
from kafkalog_cli.ops.serve.broker import Answer

ANSWERS: Mapping[str, Answer] = MappingProxyType({
    "Metadata": answer_cluster.metadata,
    "DescribeTopicPartitions": answer_cluster.describe_topic_partitions,
    "DescribeCluster": answer_cluster.describe_cluster,
    "FindCoordinator": answer_cluster.find_coordinator,
    "Fetch": answer_fetch.fetch,
    "ListOffsets": answer_offsets.list_offsets,
    "OffsetForLeaderEpoch": answer_offsets.epoch_ends,
    "JoinGroup": answer_members.join,
    "SyncGroup": answer_members.sync,
    "Heartbeat": answer_members.heartbeat,
    "LeaveGroup": answer_members.leave,
    "ConsumerGroupHeartbeat": answer_consumer_groups.heartbeat,
    "ConsumerGroupDescribe": answer_consumer_groups.describe,
    "OffsetCommit": answer_commits.commit,
    "OffsetFetch": answer_commits.offset_fetch,
    "ListGroups": answer_groups.list_groups,
    "DescribeGroups": answer_groups.describe_groups,
    "DescribeConfigs": answer_configs.describe_configs,
    "DescribeLogDirs": answer_log_dirs.describe_log_dirs,
    "DescribeProducers": answer_transactions.describe_producers,
    "ListTransactions": answer_transactions.list_transactions,
    "DescribeTransactions": answer_transactions.describe_transactions,
    "ListPartitionReassignments": answer_cluster.no_reassignments,
    "DescribeAcls": answer_cluster.no_acls,
    "Produce": answer_changes.refuse_produce,
    "InitProducerId": answer_changes.refuse_producer,
    "CreateTopics": answer_changes.refuse_create_topics,
    "DeleteTopics": answer_changes.refuse_delete_topics,
    "CreatePartitions": answer_changes.refuse_create_partitions,
    "DeleteRecords": answer_changes.refuse_delete_records,
    "AlterConfigs": answer_changes.refuse_alter_configs,
    "IncrementalAlterConfigs": answer_changes.refuse_alter_configs,
    "DeleteGroups": answer_changes.refuse_delete_groups,
    "OffsetDelete": answer_changes.refuse_offset_delete,
    "ElectLeaders": answer_changes.refuse_cluster_change,
    "AlterPartitionReassignments": answer_changes.refuse_cluster_change,
})  # fmt: skip

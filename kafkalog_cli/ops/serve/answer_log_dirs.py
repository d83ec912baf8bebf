"""DescribeLogDirs: the sizes of the served partitions in each log directory."""

from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.ops.serve.broker import Broker, Request


def describe_log_dirs(broker: Broker, request: Request) -> Message:
    """Answer the log directories with the partitions in them."""
    asked = request.body["topics"]
    wanted = None if asked is None else {topic["topic"]: set(topic["partitions"]) for topic in asked}
    results = []
    for log_dir in broker.catalog.log_dirs.replicas.log_dirs:
        topics: dict[str, list[Message]] = {}
        for copy in broker.catalog.copies_in(log_dir):
            name, number = copy.partition.topic, copy.partition.number
            if wanted is None or number in wanted.get(name, ()):
                size = sum(segment.log.size_bytes for segment in copy.partition.segments)
                topics.setdefault(name, []).append({"partitionIndex": number, "partitionSize": size})
        found = [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
        results.append({"logDir": log_dir, "topics": found})
    return {"results": results}

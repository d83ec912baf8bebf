"""The output of serve: one line when clients may connect, as text or as an object."""

from collections.abc import Sequence
from typing import Annotated, TypedDict

from kafkalog_cli.errors import counted
from kafkalog_cli.ops.serve.served_partition import ServedPartition
from kafkalog_cli.ops.serve.serving import Serving
from kafkalog_cli.output.ndjson import NUMBER_OF, Count, From, ObjectKind, keywords


def _segments(partitions: Sequence[ServedPartition]) -> int:
    return sum(len(one.segments) for one in partitions)


class ServingObject(TypedDict):
    """The server accepts connections from now on."""

    bootstrap: Annotated[str, "the address for bootstrap.servers"]
    old_clients: Annotated[
        str | None, From("old_clients_address"), "the address for clients of Kafka 0.7 and 0.8 (--old-clients)"
    ]
    cluster_id: Annotated[str | None, From("catalog.cluster_id"), "from meta.properties"]
    node_id: Annotated[int, From("catalog.node_id"), "from meta.properties; 1 if no file has it"]
    topics: Annotated[Count, From("catalog.topic_count")]
    partitions: Annotated[Count, From("catalog.partitions"), NUMBER_OF]
    segments: Annotated[
        Count, From("catalog.partitions"), keywords(_segments), "segments that stay open while they are served"
    ]


SERVING = ObjectKind("kafkalog.serving/1", ServingObject)


def serving_line(serving: Serving) -> str:
    """Return the line about a server, which begins with its address."""
    topics = counted(serving.catalog.topic_count, "topic")
    partitions = counted(len(serving.catalog.partitions), "partition")
    address = serving.old_clients_address
    old = "" if address is None else f" Clients of Kafka 0.7 and 0.8 connect to {address}."
    return f"{serving.bootstrap} serves {topics}, {partitions}, read-only.{old} Ctrl-C stops it.\n"

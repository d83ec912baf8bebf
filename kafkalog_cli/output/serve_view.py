"""The output of serve: one line when clients may connect, as text or as an object."""

from typing import Annotated, TypedDict

from kafkalog_cli.errors import counted
from kafkalog_cli.ops.serve.serving import Serving
from kafkalog_cli.output.ndjson import Count, ObjectKind


class ServingObject(TypedDict):
    """The server accepts connections from now on."""

    bootstrap: Annotated[str, "the address for bootstrap.servers"]
    old_clients: Annotated[str | None, "the address for clients of Kafka 0.7 and 0.8 (--old-clients)"]
    cluster_id: Annotated[str | None, "from meta.properties"]
    node_id: Annotated[int, "from meta.properties; 1 if no file has it"]
    topics: Count
    partitions: Count
    segments: Annotated[Count, "segments that stay open while they are served"]


SERVING = ObjectKind("kafkalog.serving/1", ServingObject)


def serving_object(serving: Serving) -> ServingObject:
    """Return the object about a server."""
    catalog = serving.catalog
    partitions = catalog.partitions
    return {
        "bootstrap": serving.bootstrap,
        "old_clients": serving.old_clients_address,
        "cluster_id": catalog.cluster_id,
        "node_id": catalog.node_id,
        "topics": catalog.topic_count,
        "partitions": len(partitions),
        "segments": sum(len(one.segments) for one in partitions),
    }


def serving_line(serving: Serving) -> str:
    """Return the line about a server, which begins with its address."""
    found = serving_object(serving)
    topics = counted(found["topics"], "topic", "topics")
    partitions = counted(found["partitions"], "partition", "partitions")
    old = "" if found["old_clients"] is None else f" Clients of Kafka 0.7 and 0.8 connect to {found['old_clients']}."
    return f"{found['bootstrap']} serves {topics}, {partitions}, read-only.{old} Ctrl-C stops it.\n"

"""The output of serve: one line when clients may connect, as text or as an object."""

from __future__ import annotations

from typing import Annotated, TypedDict

from kafkalog_cli.errors import counted
from kafkalog_cli.ops.serve.serving import Serving
from kafkalog_cli.output.records import Count, ObjectKind


class ServingObject(TypedDict):
    """The server accepts connections from now on."""

    bootstrap: Annotated[str, "the address for bootstrap.servers"]
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
        "cluster_id": catalog.cluster_id,
        "node_id": catalog.node_id,
        "topics": len(catalog.topics),
        "partitions": len(partitions),
        "segments": sum(len(one.segments) for one in partitions),
    }


def serving_line(serving: Serving) -> str:
    """Return the line about a server, which begins with its address."""
    found = serving_object(serving)
    topics = counted(found["topics"], "topic", "topics")
    partitions = counted(found["partitions"], "partition", "partitions")
    return f"{found['bootstrap']} serves {topics}, {partitions}, read-only. Ctrl-C stops it.\n"

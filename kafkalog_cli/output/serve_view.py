"""The text of serve: one line when clients may connect."""

from kafkalog_cli.errors import counted
from kafkalog_cli.ops.serve.serving import Serving


def serving_line(serving: Serving) -> str:
    """Return the line about a server, which begins with its address."""
    counts = f"{counted(serving.topics, 'topic')}, {counted(serving.partitions, 'partition')}"
    address = serving.old_clients
    old = "" if address is None else f" Clients of Kafka 0.7 and 0.8 connect to {address}."
    return f"{serving.bootstrap} serves {counts}, read-only.{old} Ctrl-C stops it.\n"

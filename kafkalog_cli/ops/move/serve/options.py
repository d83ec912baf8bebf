"""The choices of `kafkalog serve`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkalog_cli.ops.choices import DamageAnswer
from kafkalog_cli.ops.selection import Selection

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 9092


class ServerLimits(NamedTuple):
    """The limits of a server: connections at a time, and seconds without a request."""

    connections: int = 100
    idle_seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The logs to serve, and the server's settings.

    `at_ms` is the time as of which the logs are served, in epoch ms; None serves all records. `old_clients_port` is the
    port for clients of Kafka 0.7 and 0.8; None serves none of them, and no log of 0.7.
    """

    paths: Sequence[str]
    selection: Selection = field(default=Selection())
    host: str = LOOPBACK
    port: int = DEFAULT_PORT
    on_damage: DamageAnswer = DamageAnswer.STOP
    at_ms: int | None = None
    metadata: str | None = None
    broker_config: str | None = None
    limits: ServerLimits = field(default=ServerLimits())
    old_clients_port: int | None = None

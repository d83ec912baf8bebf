"""The arguments of an answer: the request that was read, and the state that all requests share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalog_cli.disk.names import is_topic_name
from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.format.protocol.errors import ApiError

if TYPE_CHECKING:
    from kafkalog_cli.ops.move.serve.catalog import ServedCatalog
    from kafkalog_cli.ops.move.serve.committed import CommittedStore
    from kafkalog_cli.ops.move.serve.consumer_groups import ConsumerGroupCoordinator
    from kafkalog_cli.ops.move.serve.groups import GroupCoordinator

NO_EPOCH = NO_OFFSET = -1
NO_OPERATIONS = -(1 << 31)
"""The authorized operations if they are not known."""


class Caller(NamedTuple):
    """The client of a request's id and address, and the address of this broker that the client has dialled."""

    client_id: str
    client_host: str
    broker_host: str
    broker_port: int


class Request(NamedTuple):
    """A request that was read."""

    version: int
    body: Message
    caller: Caller

    def distinct(self, array: str, *fields: str) -> list[Any]:
        """Return the elements of an array, each once; `fields` identify an element that is a struct.

        Otherwise a small request that names a thing many times would have a very large answer.
        """
        elements = self.body[array]
        by_key = {tuple(each.get(name) for name in fields) if fields else each: each for each in reversed(elements)}
        return [*reversed(by_key.values())]


@dataclass(frozen=True, slots=True, eq=False)
class Broker:
    """The state that all requests share. `now_ms` is the time in epoch ms; `stopping` is set when the server ends."""

    catalog: ServedCatalog
    groups: GroupCoordinator
    consumer_groups: ConsumerGroupCoordinator
    committed: CommittedStore
    now_ms: Callable[[], int]
    stopping: Event


Answer = Callable[[Broker, Request], Message]


def unknown_topic(name: str | None) -> ApiError:
    """Return the error for a topic that is not served; a name that no topic can have is an error of its own."""
    return ApiError.UNKNOWN_TOPIC_OR_PARTITION if is_topic_name(name or "") else ApiError.INVALID_TOPIC_EXCEPTION


def of_each_partition(request: Request, name: str, answer: Callable[[str, Message], Message]) -> Message:
    """Return a message with what `answer` returns for each requested partition; `name` is the field of topics."""
    return {
        "topics": [
            {name: topic[name], "partitions": [answer(topic[name], requested) for requested in topic["partitions"]]}
            for topic in request.body["topics"]
        ]
    }


def by_topic(
    partitions: Iterable[tuple[str, int]], topic: str = "topicId", numbers: str = "partitions"
) -> list[Message]:
    """Return partitions by topic, sorted, in the fields with these names."""
    by_name: dict[str, list[int]] = {}
    for name, number in sorted(partitions):
        by_name.setdefault(name, []).append(number)
    return [{topic: name, numbers: of_topic} for name, of_topic in by_name.items()]

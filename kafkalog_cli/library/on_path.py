"""The verbs as methods on a path."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from kafkalog_cli.library import reading, serving, verbs

if TYPE_CHECKING:
    from typing import Concatenate, ParamSpec

    WordsT = ParamSpec("WordsT")

ResultT = TypeVar("ResultT")


def _on_path(verb: Callable[Concatenate[Any, WordsT], ResultT]) -> Callable[Concatenate[OnPath, WordsT], ResultT]:
    """Return a verb as a method: it takes the arguments of its function after the path."""

    def method(self: OnPath, /, *words: WordsT.args, **named: WordsT.kwargs) -> ResultT:
        return verb(self.path, *words, **named)

    method.__name__, method.__doc__ = verb.__name__, f"See `kafkalog_cli.{verb.__name__}`."
    return method


class OnPath:
    """The verbs as methods on the partitions under `path`; each takes the arguments of its function after the path."""

    @property
    def path(self) -> str:
        """The path that was opened."""
        raise NotImplementedError

    find = _on_path(reading.find)
    inspect = _on_path(reading.inspect)
    replay = _on_path(reading.replay)
    serve = _on_path(serving.serve)
    stats = _on_path(reading.stats)
    cluster = _on_path(verbs.cluster)
    compact = _on_path(verbs.compact)
    delete_records = _on_path(verbs.delete_records)
    doctor = _on_path(verbs.doctor)
    group_history = _on_path(verbs.group_history)
    groups = _on_path(verbs.groups)
    metadump = _on_path(verbs.metadump)
    purge = _on_path(verbs.purge)
    recover = _on_path(verbs.recover)
    retain = _on_path(verbs.retain)
    roll = _on_path(verbs.roll)
    transactions = _on_path(verbs.transactions)
    truncate = _on_path(verbs.truncate)
    undo = _on_path(verbs.undo)
    verify = _on_path(verbs.verify)

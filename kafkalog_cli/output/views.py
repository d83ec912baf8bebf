"""How the results of a verb are shown: lines for people, an object each for programs, and counts at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kafkalog_cli.actions.session.work import Changed

if TYPE_CHECKING:
    from kafkalog_cli.output.stream import ResultStream

ResultT = TypeVar("ResultT")


def _nothing(_out: ResultStream) -> None:
    """There is no last word."""


def _everything(_result: Any) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class View(Generic[ResultT]):
    """`fields` are those of an object of `schema`. `is_idle`: whether a result says that nothing was done.

    `names` are the counts of the last line; `counts` adds to them, and `failed` of the results as well. `question` says
    what is about to happen to a partition. `last` writes what comes after all results.
    """

    schema: str
    fields: Callable[[ResultT], dict[str, Any]]
    lines: Callable[[ResultT], Iterable[str]]
    names: tuple[str, ...] = ()
    counts: Callable[[ResultT], Mapping[str, int]] = lambda _: {}
    is_idle: Callable[[ResultT], bool] = _everything
    question: Callable[[Any], str] = str
    last: Callable[[ResultStream], None] = _nothing

    @property
    def kind(self) -> str:
        """The word for an object of the schema: that of `kafkalog.roll/1` is roll."""
        return self.schema.removeprefix("kafkalog.").partition("/")[0]


FAILED = "failed"
"""The count of partitions that are left alone, which no line of output has; metrics do."""


def change_counts(changed: Changed[Any], of_plan: Mapping[str, int]) -> dict[str, int]:
    """The counts of a log that was changed, or would be: nothing but `failed` of one that is refused."""
    plan = changed.plan
    counted = {"changed": int(plan.has_work and not changed.is_dry_run), FAILED: int(plan.is_refused)}
    return counted if plan.is_refused else {**counted, **of_plan}


def change_is_idle(changed: Changed[Any]) -> bool:
    """Whether there is nothing to tell where only what was done is told."""
    return not changed.plan.has_work and not changed.plan.remarks

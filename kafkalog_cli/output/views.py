"""View: how the results of a verb are shown, as lines of text, as JSON objects, and as counts at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kafkalog_cli.actions.session.work import Changed

if TYPE_CHECKING:
    from kafkalog_cli.output.stream import ResultStream

ResultT = TypeVar("ResultT")


def _nothing(_out: ResultStream) -> None:
    """Write nothing: the default of `last`."""


def _never_idle(_result: Any) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class View(Generic[ResultT]):
    """How the results of a verb are shown.

    `fields` returns the fields of an object of `schema`. `is_idle`: whether a result reports that nothing was done.
    `names` are the counts of the summary; `counts` returns a result's part of these, and of FAILED. `question`
    describes what is about to happen to a partition. `last` writes the output after all results.
    """

    schema: str
    fields: Callable[[ResultT], dict[str, Any]]
    lines: Callable[[ResultT], Iterable[str]]
    names: tuple[str, ...] = ()
    counts: Callable[[ResultT], Mapping[str, int]] = lambda _: {}
    is_idle: Callable[[ResultT], bool] = _never_idle
    question: Callable[[Any], str] = str
    last: Callable[[ResultStream], None] = _nothing

    @property
    def kind(self) -> str:
        """The `type` of the schema's objects: roll for `kafkalog.roll/1`."""
        return self.schema.removeprefix("kafkalog.").partition("/")[0]


FAILED = "failed"
"""The count of refused partitions; it is in metrics but not in the summary."""


def change_counts(changed: Changed[Any], of_plan: Mapping[str, int]) -> dict[str, int]:
    """Return the counts of a log that was changed, or would be; only FAILED for a refused partition."""
    plan = changed.plan
    counted = {"changed": int(plan.has_work and not changed.is_dry_run), FAILED: int(plan.is_refused)}
    return counted if plan.is_refused else {**counted, **of_plan}


def change_is_idle(changed: Changed[Any]) -> bool:
    """Whether a result reports neither a change nor a remark."""
    return not changed.plan.has_work and not changed.plan.remarks

"""View: how the results of a verb are shown, as lines of text, as JSON objects, and as counts at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from kafkalog_cli.ops.session.work import Changed

if TYPE_CHECKING:
    from kafkalog_cli.errors import KafkalogError
    from kafkalog_cli.output.records import ObjectKind
    from kafkalog_cli.output.stream import ResultStream

ResultT = TypeVar("ResultT")


def _nothing(_out: ResultStream) -> None:
    """Write nothing: the default of `last`."""


def _never_idle(_result: Any) -> bool:
    return False


class Detail(str):
    """A line that is printed only with --verbose: a setting or a change of a dry run, a file that purge removes."""

    __slots__ = ()


class Listener(Protocol):
    """Gets results and errors as they come."""

    def show(self, result: Any) -> None:
        """Take a result."""

    def fail(self, path: str | None, error: KafkalogError) -> None:
        """Take the error of a partition or of another path."""


@dataclass(frozen=True, slots=True)
class View(Generic[ResultT]):
    """How the results of a verb are shown.

    `fields` returns the fields of an object of `kind`. `is_idle`: whether a result reports that nothing was done.
    `names` are the counts of the summary; `counts` returns a result's part of these, and of FAILED. `question`
    asks for consent to a plan, without a question mark. `last` writes the output after all results. `has_work`: whether
    a result reports a change, also in a dry run; None: text output has no summary. `objects` returns the JSON objects
    of a result, each with its kind; None: one of `kind`. `counts_partitions`: whether the summary has the number of
    partitions. `listener` gets all results and errors first, and may write them itself.
    """

    kind: ObjectKind[Any]
    fields: Callable[[ResultT], Mapping[str, object]]
    lines: Callable[[ResultT], Iterable[str]]
    names: tuple[str, ...] = ()
    counts: Callable[[ResultT], Mapping[str, int]] = lambda _: {}
    is_idle: Callable[[ResultT], bool] = _never_idle
    question: Callable[[Any], str] = str
    last: Callable[[ResultStream], None] = _nothing
    has_work: Callable[[ResultT], bool] | None = None
    objects: Callable[[ResultT], Iterable[tuple[ObjectKind[Any], Mapping[str, object]]]] | None = None
    counts_partitions: bool = True
    listener: Listener | None = None

    def objects_of(self, result: ResultT) -> Iterable[tuple[ObjectKind[Any], Mapping[str, object]]]:
        """Return the JSON objects of a result, each with its kind."""
        return [(self.kind, self.fields(result))] if self.objects is None else self.objects(result)


FAILURES = "failures"
"""The count of errors, in the summary of a view that names it."""

FAILED = "failed"
"""The count of refused partitions; it is in metrics but not in the summary."""


def change_counts(changed: Changed[Any], of_plan: Mapping[str, int]) -> dict[str, int]:
    """Return the counts of a log that was changed, or would be; only FAILED for a refused partition."""
    plan = changed.plan
    counted = {"changed": int(plan.has_work and not changed.is_dry_run), FAILED: int(plan.is_refused)}
    return counted if plan.is_refused else {**counted, **of_plan}


def change_has_work(changed: Changed[Any]) -> bool:
    """Whether a log is changed, or would be."""
    return bool(changed.plan.has_work and not changed.plan.is_refused)


def change_is_idle(changed: Changed[Any]) -> bool:
    """Whether a result reports neither a change nor a remark."""
    return not changed.plan.has_work and not changed.plan.remarks

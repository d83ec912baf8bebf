"""Make findings: where the problem is, how bad it is, what a broker does about it, and the next step."""

from typing import Annotated, NamedTuple

from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind, Severity, StartAction
from kafkalog_cli.ops.steps import Steps, Word, fill_in_paths, text_of, with_word
from kafkalog_cli.results import NULL_IF_EMPTY, Before, Count, Hidden, PathName


class Finding(NamedTuple):
    """A finding of verify.

    `at_start`: what a broker does about it at its next start.
    """

    kind: Annotated[FindingKind, "docs/findings.md explains each; later versions may have more"]
    path: Annotated[PathName, "the file or directory"]
    message: str
    position: Annotated[Count | None, Before("message"), "in bytes from the start of the file"] = None
    expected: Annotated[str, NULL_IF_EMPTY, Before("message"), "as text"] = ""
    got: Annotated[str, NULL_IF_EMPTY, Before("message"), "as text"] = ""
    first_offset: Annotated[int | None, Before("message"), "the first offset concerned"] = None
    last_offset: Annotated[int | None, Before("message"), "the last offset concerned"] = None
    broker_effect: Annotated[str, NULL_IF_EMPTY, "a broker's reaction, at its start or while it runs"] = ""
    steps: Hidden[Steps] = ()
    at_start: Hidden[tuple[StartAction, ...]] = ()

    @property
    def next_step(self) -> Annotated[str, NULL_IF_EMPTY, "null if nothing has to be done"]:
        """The steps as text; "" if nothing has to be done."""
        return text_of(self.steps)

    @property
    def severity(self) -> Annotated[Severity, Before("path")]:
        """The severity of the finding's kind."""
        return self.kind.severity


def finding(  # noqa: PLR0913
    kind: FindingKind,
    path: str,
    message: str,
    *,
    position: int | None = None,
    expected: str = "",
    got: str = "",
    offsets: tuple[int, int] | None = None,
    broker_effect: str = "",
    steps: Steps = (),
    at_start: tuple[StartAction, ...] | None = None,
) -> Finding:
    """Return a finding, with `broker_effect`, `steps` and `at_start` from the table unless they are given.

    An offset or position below 0, read from damaged bytes, becomes None.
    """
    first, last = _real(offsets) or (None, None)
    position = None if position is None or position < 0 else position
    effect = broker_effect or kind.broker_effect
    return Finding(
        kind,
        path,
        message,
        position,
        expected,
        got,
        first,
        last,
        effect,
        steps or kind.steps,
        kind.at_start if at_start is None else at_start,
    )


def _real(offsets: tuple[int, int] | None) -> tuple[int, int] | None:
    if offsets is None or offsets[1] < 0:
        return None
    return (offsets[0] if offsets[0] >= 0 else offsets[1], offsets[1])


def as_kind(found: Finding, kind: FindingKind) -> Finding:
    """Return the finding with another kind, and the texts of that kind."""
    return found._replace(kind=kind, broker_effect=kind.broker_effect, steps=kind.steps, at_start=kind.at_start)


def with_path(found: Finding, path: str, metadata: str | None = None) -> Finding:
    """Return the finding with the words of its commands filled in, ready to paste; see `fill_in_paths`."""
    return found._replace(steps=fill_in_paths(found.steps, path, found.path, metadata)) if found.steps else found


_OF_FAULT = {
    FaultKind.UNREADABLE: FindingKind.UNREADABLE_RANGE,
    FaultKind.BATCH_TOO_LARGE: FindingKind.BATCH_TOO_LARGE,
    FaultKind.INVALID_MAGIC: FindingKind.DAMAGED_RANGE,
    FaultKind.UNKNOWN_CODEC: FindingKind.UNKNOWN_CODEC,
    FaultKind.CRC_MISMATCH: FindingKind.CRC_MISMATCH,
    FaultKind.INVALID_COUNT: FindingKind.RECORD_COUNT,
    FaultKind.INVALID_RECORD: FindingKind.INVALID_RECORD,
    FaultKind.RECORDS_REMAINING: FindingKind.RECORD_COUNT,
    FaultKind.DECOMPRESSION_FAILED: FindingKind.DECOMPRESSION,
    FaultKind.OUTPUT_TOO_LARGE: FindingKind.OUTPUT_TOO_LARGE,
    FaultKind.INVALID_INNER_MESSAGE: FindingKind.INNER_MESSAGE,
    FaultKind.INVALID_CONTROL_RECORD: FindingKind.CONTROL_RECORD,
}


def of_fault(path: str, fault: Fault, kind: FindingKind | None = None) -> Finding:
    """Return the finding for a fault in a log; `kind`, if given, replaces the kind that follows from the fault."""
    kind = kind or _OF_FAULT.get(fault.kind, FindingKind.DAMAGED_RANGE)
    known = fault.base_offset >= 0 or fault.last_offset >= 0
    first = fault.base_offset if fault.base_offset >= 0 else fault.last_offset
    return finding(
        kind,
        path,
        fault.message,
        position=fault.position,
        expected=fault.expected,
        got=fault.got,
        offsets=(first, max(first, fault.last_offset)) if known else None,
        steps=with_word(kind.steps, Word.BATCH_BYTES, str(fault.size_bytes)),
    )

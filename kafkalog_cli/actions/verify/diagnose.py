"""From what was found to a finding: where it is, how bad, what a broker does about it, and the next step."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from shlex import quote

from kafkalog_cli.actions.verify.diagnoses_of_files import FILE_DIAGNOSES
from kafkalog_cli.actions.verify.diagnoses_of_logs import LOG_DIAGNOSES
from kafkalog_cli.actions.verify.finding_kinds import Diagnosis, FindingKind, Severity
from kafkalog_cli.format.fault import Fault, FaultKind

DIAGNOSES: dict[FindingKind, Diagnosis] = {**LOG_DIAGNOSES, **FILE_DIAGNOSES}
"""The table; docs/findings.md is written from it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found. `position` is in bytes; offsets are those concerned; None: not known, or none.

    `expected` and `got` are for people, empty where the message says all.
    """

    kind: FindingKind
    path: str
    message: str
    position: int | None = None
    expected: str = ""
    got: str = ""
    first_offset: int | None = None
    last_offset: int | None = None
    broker_effect: str = ""
    next_step: str = ""

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        return DIAGNOSES[self.kind].severity


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
    next_step: str = "",
) -> Finding:
    """A finding, with the table's sentences where none of its own are given."""
    row = DIAGNOSES[kind]
    first, last = offsets or (None, None)
    effect = broker_effect or row.broker_effect
    return Finding(kind, path, message, position, expected, got, first, last, effect, next_step or row.next_step)


def with_path(found: Finding, path: str) -> Finding:
    """The finding with a next step that is ready to paste: `path`, of a partition or a log directory, for PATH."""
    step = _PATH.sub(lambda _: quote(path), found.next_step)
    return found if step == found.next_step else replace(found, next_step=step)


_PATH = re.compile(r"\bPATH\b")

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
    """What a fault in a log amounts to; `kind` where its place decides."""
    known = fault.base_offset >= 0 or fault.last_offset >= 0
    first = fault.base_offset if fault.base_offset >= 0 else fault.last_offset
    return finding(
        kind or _OF_FAULT.get(fault.kind, FindingKind.DAMAGED_RANGE),
        path,
        fault.message,
        position=fault.position,
        expected=fault.expected,
        got=fault.got,
        offsets=(first, max(first, fault.last_offset)) if known else None,
    )

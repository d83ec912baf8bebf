"""From what was found to a finding: where it is, how bad, what a broker does about it, and the next step."""

from __future__ import annotations

import os
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
    """A finding, with the table's sentences where none of its own are given.

    A number below 0 that damaged bytes give as an offset or a position is none.
    """
    row = DIAGNOSES[kind]
    first, last = _real(offsets) or (None, None)
    position = None if position is None or position < 0 else position
    effect = broker_effect or row.broker_effect
    return Finding(kind, path, message, position, expected, got, first, last, effect, next_step or row.next_step)


def _real(offsets: tuple[int, int] | None) -> tuple[int, int] | None:
    if offsets is None or offsets[1] < 0:
        return None
    return (offsets[0] if offsets[0] >= 0 else offsets[1], offsets[1])


def with_path(found: Finding, path: str) -> Finding:
    """The finding with a next step that is ready to paste.

    PATH becomes `path`, of a partition or a log directory, and PATH_AWAY a place for it outside its parent directory.
    FILE becomes the path of the finding itself, FILE_AWAY such a place for it, and FILE_ASIDE a name that no broker
    looks at.
    """
    own = found.path
    words = {
        "PATH": path,
        "PATH_AWAY": place_outside(path),
        "FILE": own,
        "FILE_AWAY": place_outside(own),
        "FILE_ASIDE": f"{own}.aside",
    }
    step = _PLACEHOLDER.sub(lambda match: quote(words[match.group()]), found.next_step)
    return found if step == found.next_step else replace(found, next_step=step)


_PLACEHOLDER = re.compile(r"(?<=[ `])(?:PATH|FILE)(?:_AWAY|_ASIDE)?(?=[ `,;]|$)")
"""A word of its own: a path that is filled in already may have such a word as a part."""


def place_outside(path: str) -> str:
    """Where a file or directory goes that must leave the directory it lies in: beside that directory."""
    if os.path.basename(path.rstrip("/")) in {"", ".", ".."}:  # noqa: PTH119 (a name, links are not followed)
        path = os.path.abspath(path)  # noqa: PTH100
    parent, _, name = path.rstrip("/").rpartition("/")
    above = os.path.normpath(f"{parent}/.." if parent else "/" if path.startswith("/") else "..")
    return os.path.join("" if above == "." else above, name)  # noqa: PTH118


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
        next_step=DIAGNOSES[kind].next_step.replace("BYTES", str(fault.size_bytes)),
    )

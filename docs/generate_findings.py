"""Writes docs/findings.md: what verify can find, how bad each is, what a broker does about it, and the next step."""

from __future__ import annotations

from pathlib import Path

from kafkalog_cli.ops.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.steps import text_of

TARGET = Path(__file__).with_name("findings.md")

HEADER = """\
# Findings of verify

Every finding of `verify`: its severity, its effect on a broker, the next step. `docs/generate_findings.py`
writes this page from the table in `kafkalog_cli/ops/checks/finding_kinds.py`: change the table, not this page.
A partition or log directory ends with exit code 4 if anything in it is a corruption, with 3 if anything is a
warning, else with 0. A finding may be more exact than this page. The effect of a leftover depends on the files
beside it, and the next step on the replicas in the metadata log.

**Salvage or replicate** stands for: {shared}.

| Finding | Severity | Effect on a broker | Next step |
|---|---|---|---|
"""


def render() -> str:
    """The whole page. The next step that would take the most room, repeated, is in the header only."""
    steps = [text_of(kind.steps) for kind in FindingKind]
    shared = max(steps, key=lambda step: len(step) * sum(step in other for other in steps))
    return HEADER.replace("{shared}", shared) + "".join(row(kind, shared) for kind in FindingKind)


def row(kind: FindingKind, shared: str) -> str:
    """One kind as a row; `shared` is the step in the header."""
    effect, step = kind.broker_effect or "as the finding says", text_of(kind.steps) or "nothing"
    step = step.replace(shared, "**salvage or replicate**")
    return f"| `{kind.value}` | {kind.severity.value} | {effect} | {step} |\n"


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")

"""Writes docs/findings.md: what verify can find, how bad each is, what a broker does about it, and the next step."""

from __future__ import annotations

from pathlib import Path

from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.steps import REPLICATE, SALVAGE, text_of

TARGET = Path(__file__).with_name("findings.md")

HEADER = """\
# Findings of verify

Every finding of `verify`: its severity, its effect on a broker, the next step. `docs/generate_findings.py`
writes this page from the table in `kafkalog_cli/ops/check/checks/finding_kinds.py`: change the table, not this page.
A partition or log directory ends with exit code 4 if anything in it is a corruption, with 3 if anything is a
warning, else with 0. A finding may be more exact than this page. The effect of a leftover depends on the files
beside it, and the next step on the replicas in the metadata log.

{shared}

| Finding | Severity | Effect on a broker | Next step |
|---|---|---|---|
"""


IDS = "the ids that it had"
_, _, AFTER_IDS = text_of(FindingKind.META_PROPERTIES.steps).partition(IDS)

SHARED = {
    "salvage, replicate or skip": text_of(FindingKind.RECORD_COUNT.steps),
    "salvage or replicate": text_of((SALVAGE,)),
    "replicate": text_of(REPLICATE),
    IDS: IDS + AFTER_IDS,
}
"""Steps of several findings, which are written out only above the table. Each text comes before those within it."""


def render() -> str:
    """The whole page."""
    meanings = {name: shorten(text, besides=name).removeprefix(f"{name}. ") for name, text in SHARED.items()}
    shared = "\n\n".join(f"**{name.capitalize()}**: {meaning}." for name, meaning in meanings.items())
    return HEADER.replace("{shared}", shared) + "".join(map(row, FindingKind))


def shorten(text: str, *, besides: str | None = None) -> str:
    """Put the names of shared steps in the place of their texts, but not the name `besides`."""
    for name, shared in SHARED.items():
        if name != besides:
            text = text.replace(shared, f"**{name}**")
    return text


def row(kind: FindingKind) -> str:
    """One kind as a row."""
    effect, step = kind.broker_effect or "as the finding says", shorten(text_of(kind.steps)) or "nothing"
    return f"| `{kind.value}` | {kind.severity.value} | {effect} | {step} |\n"


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")

"""Writes docs/refusals.md: the rules by which writers refuse a partition or warn of it."""

from __future__ import annotations

from pathlib import Path

from kafkalog_cli.ops.change.refusals import RULES, Action, Rule, RuleOutcome

TARGET = Path(__file__).with_name("refusals.md")

HEADER = """\
# When a writer refuses a partition

Every rule by which a writer refuses a partition, and the option that lifts it. `docs/generate_refusals.py`
writes this page from the table in `kafkalog_cli/ops/change/refusals.py`: change the table, not this page. A refused
partition ends with exit code 14 and stays unchanged, an unsupported partition with 12. The run continues with
the other partitions. The flag that lifts a refusal turns it into a warning with the same reason.

Every writer also needs its locks (exit code 11), and room for the files that it keeps (13).

| Rule | It applies if | Commands | Then | Lifted by |
|---|---|---|---|---|
"""


def render() -> str:
    """The whole page."""
    return HEADER + "".join(map(row, RULES))


def row(rule: Rule) -> str:
    """One rule as a row."""
    commands = "all writers" if rule.actions == set(Action) else ", ".join(a.value for a in Action if a in rule.actions)
    code = "" if rule.outcome is RuleOutcome.WARNING else f" ({int(rule.outcome.exit_code)})"
    flag = f"`{rule.flag}`" if rule.flag else ("–" if rule.outcome is RuleOutcome.WARNING else "nothing")  # noqa: RUF001
    cells = (f"`{rule.name}`", rule.when, commands, rule.outcome.value + code, flag)
    return "| " + " | ".join(cells) + " |\n"


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")

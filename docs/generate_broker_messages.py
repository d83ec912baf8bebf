"""Writes docs/broker-messages/: a page for each line of a broker's log in `broker_messages.py`, and their index."""

from __future__ import annotations

import sys
from pathlib import Path

from kafkalog_cli.ops.doctor.broker_message import JAVA, OPERATING_SYSTEM, BrokerMessage, BrokerText
from kafkalog_cli.ops.doctor.broker_messages import MESSAGES, SECTIONS

TARGET = Path(__file__).with_name("broker-messages")

INDEX = """\
# Lines of a broker's log

Find the line that your broker printed; its page gives its meaning, the risk, and the commands that help.
The texts come from Kafka 4.2 and 4.3; `…` stands for a path, an offset or a name. Older versions differ in a few
words. `kafkalog doctor LOG_DIR 'LINE'` finds the page of a line. Written by `docs/generate_broker_messages.py` from
`kafkalog_cli/ops/doctor`: change the table, not the pages.
"""


def pages() -> dict[str, str]:
    """Return the text of every page by file name."""
    return {"README.md": _index(), **{f"{message.slug}.md": _page(message) for message in MESSAGES}}


def _index() -> str:
    lines = [INDEX]
    for title, messages in SECTIONS:
        lines.append(f"\n## {title}\n")
        lines += [f"- [`{_shown(text)}`]({message.slug}.md)" for message in messages for text in message.texts]
    return "\n".join(lines) + "\n"


def _page(message: BrokerMessage) -> str:
    first, *others = message.texts
    blocks = [f"# `{_shown(first)}`", f"Said by {_said_by(first)}."]
    if others:
        blocks.append("The same page is for:")
        blocks.append("\n".join(f"- `{_shown(text)}` ({_said_by(text)})" for text in others))
    blocks += ["## Meaning", message.meaning, "## Risk", message.at_stake, "## Commands"]
    blocks.append("\n\n".join(f"```sh\n{step.command}\n```\n\nThis {step.why}." for step in message.steps))
    if message.findings:
        kinds = ", ".join(f"`{kind}`" for kind in message.findings)
        blocks.append(f"`kafkalog verify` reports it as {kinds} ([all findings](../findings.md)).")
    return "\n\n".join(blocks) + "\n"


def _shown(text: BrokerText) -> str:
    return text.text.strip().replace("{}", "…")


def _said_by(text: BrokerText) -> str:
    if text.where in (OPERATING_SYSTEM, JAVA):
        return text.where
    return " or ".join(f"`{name.partition('$')[0]}`" for name in text.where.split(", "))


def stale() -> list[str]:
    """Return the names of pages that are not what the table gives, missing and superfluous ones too."""
    wanted = pages()
    there = {path.name: path.read_text(encoding="utf-8") for path in TARGET.glob("*.md")}
    return sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit("".join(f"docs/broker-messages/{name} is not current\n" for name in stale()) or 0)
    TARGET.mkdir(exist_ok=True)
    for name in stale():
        (TARGET / name).unlink(missing_ok=True)
    for name, text in pages().items():
        (TARGET / name).write_text(text, encoding="utf-8")

"""Writes docs/index.md and llms.txt from the navigation in mkdocs.yml; llms.txt has the first sentence of each page."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from kafkalog_cli.cli.commands import COMMANDS

ROOT = Path(__file__).resolve().parent.parent
NEITHER_READ_NOR_CHANGE = ("demo", "warmup")

INDEX = """\
# kafkalog

kafkalog checks, repairs, reads, cleans and queries the log directories of Apache Kafka, with no broker
running. A broker keeps the records of each partition as a directory of files, its log. kafkalog works on
these files.

If a broker is dead, `kafkalog verify LOG_DIR` changes nothing, and prints a command for each finding. If a broker
printed an error about its disk, `kafkalog doctor LOG_DIR 'LINE'` explains the line.
"""

LLMS = """\
# kafkalog

> Check, repair, read, compact and query Apache Kafka log directories, with no broker running.

Commands that only read: {readers}.
Commands that change a log directory take `--dry-run`, refuse while a broker runs, and can be undone with
`kafkalog undo`. Exit codes: 0 success, 1 failure, 2 wrong usage, 3 warnings, 4 corruption, 10 not found,
11 locked, 14 refused. `--format json` prints NDJSON with schemas (docs/schemas).

- [README](README.md): what it is, install, a first repair
"""


def sections() -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the titles of the navigation's sections, each with the titles and paths of its pages."""
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    pairs = [next(iter(entry.items())) for entry in nav]
    return [
        (title, [next(iter(page.items())) for page in pages]) for title, pages in pairs if not isinstance(pages, str)
    ]


def first_sentence(path: str) -> str:
    """Return the first sentence below the title of a page, without links; "" for a page that only the site has."""
    page = ROOT / "docs" / path
    if not page.exists():
        return ""
    paragraph = page.read_text(encoding="utf-8").split("\n\n")[1]
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
    return re.split(r"(?<=[.!?])\s", text, maxsplit=1)[0]


def render() -> dict[str, str]:
    """Return the files and their texts."""
    index, llms = INDEX, LLMS.format(readers=", ".join(readers()))
    for title, pages in sections():
        links = " · ".join(f"[{name}]({path})" for name, path in pages if first_sentence(path))
        index += f"\n**{title}**: {links}\n"
        llms += f"\n## {title}\n\n"
        for name, path in pages:
            sentence = first_sentence(path)
            if sentence:
                llms += f"- [{name}](docs/{path}): {sentence}\n"
    return {"docs/index.md": index, "llms.txt": llms + "- [Contributing](CONTRIBUTING.md)\n"}


def readers() -> list[str]:
    """Return the commands that change no log directory."""
    takes_locks = {
        name for name, command in COMMANDS.items() if any(p.name == "assume_offline" for p in command.params)
    }
    return [name for name in COMMANDS if name not in {*takes_locks, *NEITHER_READ_NOR_CHANGE}]


if __name__ == "__main__":
    for path, text in render().items():
        (ROOT / path).write_text(text, encoding="utf-8")

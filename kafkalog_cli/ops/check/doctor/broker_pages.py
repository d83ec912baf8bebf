"""The pages of docs/broker-messages, and the search for lines of a broker's log in a text.

The pages are files of this package too. A page begins with the texts of Kafka, each in backticks, `…` for each value.
"""

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Annotated, ClassVar

from kafkalog_cli.results import Hidden, Named, of, result

OPERATING_SYSTEM, JAVA = "the operating system", "Java"
"""The `where` of texts that may be in any line, such as the errors of failed system calls."""

_TEXT = re.compile(r"^(?:# |- )`(.*?)`(?: \((.*)\))?$", re.MULTILINE)
_SAID_BY = re.compile(r"^Said by (.*?)\.( Another line names the cause\.)?$", re.MULTILINE)
_STEP = re.compile(r"```sh\n(.*?)\n```\n\nThis (.*?)\.(?=\n\n|\Z)", re.DOTALL)
_FORMER = re.compile(r"(.*?)(?: of Kafka (\S+) and before)?")
_TWO_WORDS = re.compile("[a-z][^ ]* [a-z]")

_MOST_OF_A_VALUE = 500  # characters; values are paths, names and offsets


@dataclass(frozen=True, slots=True)
class BrokerText:
    """A text of Kafka, `{}` for each value. `where`: its classes (of several versions), OPERATING_SYSTEM, or JAVA.

    `until` is the last version that prints it, "" if today's do. `beginning` finds a line that has the first sentence,
    or the words before the first value.
    """

    text: str
    where: str
    until: str
    whole: re.Pattern[str]
    beginning: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class BrokerStep:
    """A command to run, and what it shows or does."""

    command: str
    why: str


@dataclass(frozen=True, slots=True)
class BrokerMessage:
    """A page: the texts that lead to it, their meaning, what is at stake, and the commands, the safest first."""

    slug: str
    texts: tuple[BrokerText, ...]
    is_consequence: bool
    meaning: str
    at_stake: str
    steps: tuple[BrokerStep, ...]
    findings: tuple[str, ...]


@result("kafkalog.broker-line/1")
@dataclass(frozen=True, slots=True)
class Recognised:
    """A line of a broker's log that was recognised in the text."""

    message: Hidden[BrokerMessage]
    slug: ClassVar[Annotated[str, "the name of its page in docs/broker-messages"]] = of("message.slug")
    text: Hidden[BrokerText]
    line: str
    kafka_text: ClassVar[Annotated[str, Named("text"), "the text of Kafka, {} for each value"]] = of("text.text")
    is_exact: Annotated[bool, Named("exact"), "false: the line has only a part of the text"]
    meaning: ClassVar[str] = of("message.meaning")
    risk: ClassVar[str] = of("message.at_stake")


@cache
def messages() -> tuple[BrokerMessage, ...]:
    """Return the pages."""
    found = files(__package__) / "broker-messages"
    pages = [page for page in found.iterdir() if page.name.endswith(".md") and page.name != "README.md"]
    return tuple(_page(page.name[:-3], page.read_text("utf-8")) for page in sorted(pages, key=lambda page: page.name))


def _page(slug: str, page: str) -> BrokerMessage:
    head, meaning, risk, commands = re.split(r"\n\n## (?:Meaning|Risk|Commands)\n\n", page.strip())
    said_by = _SAID_BY.search(head)
    if said_by is None:
        raise ValueError(f"{slug}.md: no line says which class of Kafka prints it")
    texts = (_text(text, where or said_by[1]) for text, where in _TEXT.findall(head))
    commands, _, findings = commands.partition("\n\n`kafkalog verify` reports it as ")
    steps = tuple(BrokerStep(*step) for step in _STEP.findall(commands))
    kinds = tuple(re.findall("`(.*?)`", findings.partition(" (")[0]))
    return BrokerMessage(slug, tuple(texts), said_by[2] is not None, meaning, risk, steps, kinds)


def _text(text: str, where: str) -> BrokerText:
    sentence, words = text.partition(". ")[0], text.partition("…")[0].rstrip(" [('=")
    beginnings = [part for part, least in ((words, 5), (sentence, 6)) if len(part.split()) >= least]
    names, until = _FORMER.fullmatch(where.replace("`", "").replace(" or ", ", ")).groups("")  # type: ignore[union-attr]
    beginning = _pattern(min(beginnings, default=text, key=len))
    return BrokerText(text.replace("…", "{}"), names, until, _pattern(text), beginning)


def _pattern(text: str) -> re.Pattern[str]:
    """Return the expression of a text: a value is any characters, and any white space stands for a space."""
    parts = (r"\s{1,80}".join(map(re.escape, part.split(" "))) for part in re.split("…+", text.strip("… ")))
    return re.compile(rf"[\s\S]{{0,{_MOST_OF_A_VALUE}}}?".join(parts))


def recognised(text: str) -> tuple[Recognised, ...]:
    """Return the lines of a broker's log in a text, each page once: causes before their consequences.

    Errors of the operating system and of Java come first. People copy half of a long line, or a few words: where no
    text is whole, its beginning counts, and then any piece of it.
    """
    found = _in_text(text, is_exact=True) or _in_text(text, is_exact=False) or _with_piece(text)
    by_page: dict[str, Recognised] = {}
    for one in found:
        by_page.setdefault(one.message.slug, one)
    return tuple(by_page.values())


def _in_text(text: str, *, is_exact: bool) -> list[Recognised]:
    found = []
    for page in messages():
        for one in page.texts:
            match = (one.whole if is_exact else one.beginning).search(text)
            if match is not None:
                level = 0 if one.where in (OPERATING_SYSTEM, JAVA) else 2 if page.is_consequence else 1
                start, end = text.rfind("\n", 0, match.start()) + 1, text.find("\n", match.end())
                line = Recognised(page, one, text[start : len(text) if end < 0 else end], is_exact)
                found.append(((level, match.start(), -len(one.text)), line))
    return [line for _, line in sorted(found, key=lambda pair: pair[0])]


def _with_piece(text: str) -> list[Recognised]:
    piece = " ".join(text.lower().split())
    texts = [(page, one) for page in messages() for one in page.texts if piece in one.text.lower()]
    return [Recognised(page, one, text.strip(), is_exact=False) for page, one in texts if _TWO_WORDS.search(piece)]

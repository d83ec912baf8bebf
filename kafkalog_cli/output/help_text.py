"""The help of the command line as text: paragraphs, options in groups, examples and exit codes."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kafkalog_cli.output.stream import NO_PAINT, Paint

_USAGE = "Usage:"
_WIDEST = 100
_NARROW_COLUMN = 6
_INDENT_OF_COMMANDS = 7  # with a space and a backslash at the end
_LEAST_TEXT = 30


@dataclass(frozen=True, slots=True)
class HelpEntry:
    """A command, argument or option: its names with a placeholder, its text, and what applies without it."""

    names: str
    text: str
    default: str = ""

    @property
    def whole_text(self) -> str:
        """The text with the default."""
        return f"{self.text} [default: {self.default}]" if self.default else self.text


@dataclass(frozen=True, slots=True)
class HelpGroup:
    """Entries below a title."""

    title: str
    entries: Sequence[HelpEntry]


@dataclass(frozen=True, slots=True)
class HelpExample:
    """A command line, and its purpose."""

    purpose: str
    command: str


@dataclass(frozen=True, slots=True)
class HelpPage:
    """The help of a command, or of kafkalog itself. Paragraphs have no line breaks."""

    name: str
    summary: str
    usage: str
    paragraphs: Sequence[str] = ()
    examples: Sequence[HelpExample] = ()
    groups: Sequence[HelpGroup] = field(default=())
    exit_codes: Sequence[HelpEntry] = ()
    last: str = ""
    widest_names: int = 24
    """Names of more characters have a line of their own."""


def help_text(page: HelpPage, paint: Paint = NO_PAINT, columns: int = 80) -> str:
    """Return the page as text, at most 100 columns wide."""
    width = min(columns, _WIDEST)
    return "".join(f"{line}\n" for line in _lines(page, paint, width))


def _lines(page: HelpPage, paint: Paint, width: int) -> Iterator[str]:
    yield from _paragraph(f"{page.summary}.", width)
    yield ""
    for line in _paragraph(f"{_USAGE} {page.usage}", width, "       "):
        yield line.replace(_USAGE, paint.heading(_USAGE), 1) if line.startswith(_USAGE) else line
    for paragraph in page.paragraphs:
        yield ""
        yield from _paragraph(paragraph, width)
    if page.examples:
        yield ""
        yield paint.heading("Examples:")
        for example in page.examples:
            yield from _paragraph(f"  {example.purpose}:", width, "  ")
            for line in _command(example.command, width):
                yield f"    {paint.heading(line)}"
    exit_codes = (HelpGroup("Exit codes", page.exit_codes),) if page.exit_codes else ()
    groups = (*page.groups, *exit_codes)
    lengths = [len(entry.names) for group in groups for entry in group.entries]
    column = 2 + max((length for length in lengths if length <= page.widest_names), default=0) + 2
    column = column if width - column >= _LEAST_TEXT else _NARROW_COLUMN
    for group in groups:
        yield ""
        yield paint.heading(f"{group.title}:")
        for entry in group.entries:
            yield from _entry(entry, paint, column, width)
    if page.last:
        yield ""
        yield from _paragraph(page.last, width)


def _entry(entry: HelpEntry, paint: Paint, column: int, width: int) -> Iterator[str]:
    """Yield the names and the text beside them; names that are too long have a line of their own."""
    lines = _paragraph(entry.whole_text, width - column)
    if len(entry.names) + 4 <= column:
        gap = " " * (column - len(entry.names) - 2)
        yield f"  {paint.heading(entry.names)}{gap}{next(lines, '')}".rstrip()
    else:
        yield f"  {paint.heading(entry.names)}"
    for line in lines:
        yield " " * column + line


def _command(command: str, width: int) -> Iterator[str]:
    """Yield the lines of a command, which can be pasted: a line that goes on ends with a backslash."""
    line = ""
    for part in re.split(r" (?=--|\| )", command):
        if line and len(line) + len(part) + _INDENT_OF_COMMANDS > width:
            yield f"{line} \\"
            line = f"  {part}"
        else:
            line = f"{line} {part}" if line else part
    yield line


def _paragraph(text: str, width: int, indent: str = "") -> Iterator[str]:
    yield from textwrap.wrap(
        text, max(width, _LEAST_TEXT), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )

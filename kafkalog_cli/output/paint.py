"""Colours with a meaning on a terminal (bad red, warnings yellow, fine green), and lines that break between words."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_cli.output.stream import columns_of, has_styles, terminal_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_cli.output.stream import ResultStream

_RED, _GREEN, _YELLOW, _BOLD, _END = "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[1m", "\x1b[0m"


Colour = Callable[[str], str]
"""A function that gives text a colour, such as `Paint.bad`."""


class Paint(NamedTuple):
    """Colours text if `is_on`; `width` None: lines are not broken, because the output is not a terminal."""

    is_on: bool = False
    width: int | None = None

    def bad(self, text: str) -> str:
        """Return the text of damage, an error or a refusal."""
        return self._in(_RED, text)

    def warning(self, text: str) -> str:
        """Return the text of a warning."""
        return self._in(_YELLOW, text)

    def fine(self, text: str) -> str:
        """Return the text of a good result."""
        return self._in(_GREEN, text)

    def heading(self, text: str) -> str:
        """Return a heading or a name that stands out."""
        return self._in(_BOLD, text)

    def coloured(self, text: str, part: str, colour: Colour) -> str:
        """Return the text with the colour in its first `part`, which a line break may divide."""
        if not self.is_on or not part:
            return text
        pattern = r"\s+".join(map(re.escape, part.split()))
        return re.sub(pattern, lambda found: colour(found[0]), text, count=1)

    def commands(self, text: str) -> str:
        """Return the text with its commands bold: the words between backticks, and `kafkalog undo`."""
        return _COMMANDS.sub(lambda found: self.heading(found[0]), text) if self.is_on else text

    def wrapped(self, text: str, *, indent: str = "") -> str:
        """Break a line of plain text between words; the following lines begin with `indent`."""
        width = self.width
        if width is None or columns_of(text) <= width or _IS_COMMAND.match(text):
            return text
        return "\n".join(_broken(text, max(width, len(indent) + _LEAST_COLUMNS), indent))

    def _in(self, colour: str, text: str) -> str:
        return f"{colour}{text}{_END}" if self.is_on and text else text


NO_PAINT = Paint()
_COMMANDS = re.compile(r"`[^`\n]+`|kafkalog undo (?:'[^']*'|[^ \n])+ [^ \n]+")
_LEAST_COLUMNS = 20
_IS_COMMAND = re.compile(r" *(?:next: )?kafkalog [a-z-]+ [^,:]*$")
"""A line with nothing but a command stays whole, so that it can be pasted."""


def paint_of(stream: ResultStream) -> Paint:
    """Return the paint for a stream: only a terminal has colours and a width, and NO_COLOR turns colours off."""
    if not stream.is_terminal:
        return NO_PAINT
    return Paint(has_styles(), terminal_columns())


_WORD = re.compile(
    r"kafkalog undo (?:'[^']*'|[^ ])+ [^ ]+"
    r"|\(?\d[\d.,:]* (?:ms|s|min|bytes|[KMGTPE]iB)\b[^ ]*"
    r"|(?:`[^`]*`|[^ ])+"
)
"""A word. A number stays with its unit, and a command in one line, so that it can be pasted."""


def _broken(text: str, width: int, indent: str) -> Iterator[str]:
    """Yield lines of at most `width` characters; a word that is longer, such as a path, has a line of its own."""
    line = text[: len(text) - len(text.lstrip(" "))]
    is_empty = True
    for word in _WORD.findall(text):
        if not is_empty and columns_of(line) + 1 + columns_of(word) > width:
            yield line
            line, is_empty = indent, True
        line += word if is_empty else f" {word}"
        is_empty = False
    yield line

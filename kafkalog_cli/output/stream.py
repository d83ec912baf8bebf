"""Output streams: text in large writes, the terminal's size and styles, escapes, and colours with a meaning."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from io import RawIOBase
from typing import Any, BinaryIO, NamedTuple

FLUSH_BYTES = 1 << 16
_USUAL_COLUMNS = 80


class OutputFailed(Exception):
    """An error of the stream where output goes. It is not an OSError, since those are reported as errors of a log.

    `is_after_work`: the command has done its work, and only its report is incomplete.
    """

    def __init__(self, error: OSError, *, is_after_work: bool = False) -> None:
        super().__init__(error)
        self.error = error
        self.is_after_work = is_after_work


class ResultStream:
    """Gathers text and writes it in large blocks (the JVM tool spends its time on one flushed write per line).

    Text is UTF-8; surrogate escapes from file names are written as the original bytes.
    A write raises BrokenPipeError if the reader is gone, else OutputFailed.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._parts: list[bytes] = []
        self._bytes = 0
        self.is_terminal = stream.isatty()

    def write(self, text: str) -> None:
        """Append text."""
        self.write_bytes(text.encode("utf-8", "surrogateescape"))

    def write_bytes(self, data: memoryview | bytes) -> None:
        """Append bytes that are rendered already."""
        if len(data) < FLUSH_BYTES:
            self._parts.append(bytes(data))
            self._bytes += len(data)
            if self._bytes >= FLUSH_BYTES:
                self._drain()
            return
        self._drain()
        self._write(data)

    def flush(self) -> None:
        """Flush everything to the operating system."""
        self._drain()
        with _output_errors():
            self._stream.flush()

    def _drain(self) -> None:
        if self._parts:
            self._write(b"".join(self._parts))
            self._parts.clear()
            self._bytes = 0

    def _write(self, data: memoryview | bytes) -> None:
        rest = memoryview(data)
        with _output_errors():
            while rest:  # where room is short, Python writes a part of a large buffer and raises only at the next call
                rest = rest[self._stream.write(rest) :]


@contextmanager
def _output_errors() -> Iterator[None]:
    """Re-raise an OSError as OutputFailed. BrokenPipeError is not changed."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputFailed(error) from error


class Undisturbed(RawIOBase):
    """A stream that ignores the loss of its reader, and a full disk: later output is lost, but the work continues.

    `end` raises the error.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._error: OSError | None = None

    def write(self, data: Any) -> int:  # noqa: D102
        self._unless_failed(lambda: self._stream.write(data))
        return len(data)

    def flush(self) -> None:  # noqa: D102
        self._unless_failed(self._stream.flush)

    def _unless_failed(self, do: Callable[[], object]) -> None:
        if self._error is None:
            try:
                do()
            except OSError as error:
                self._error = error

    def close(self) -> None:
        """Do nothing: the stream belongs to the caller, who closes it."""

    def isatty(self) -> bool:  # noqa: D102
        return self._stream.isatty()

    def end(self) -> None:
        """Flush everything. Raises BrokenPipeError if the reader is gone, else OutputFailed for the first error."""
        self.flush()
        if isinstance(self._error, BrokenPipeError):
            raise self._error
        if self._error is not None:
            raise OutputFailed(self._error, is_after_work=True)


def has_styles() -> bool:
    """Whether a terminal gets escape codes such as bold and dim: not with NO_COLOR or on a dumb or unknown terminal."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in ("dumb", "unknown")


def terminal_columns() -> int:
    """Return the number of characters in a terminal line; Python 3.10 reports 0 for a terminal without a size."""
    import shutil

    return shutil.get_terminal_size().columns or _USUAL_COLUMNS


def columns_of(text: str) -> int:
    """Return the number of terminal columns of printable text; wide characters have two, and combining marks none."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def printable(text: str) -> str:
    """Return `text` without raw control characters, for messages that quote names and contents."""
    if text.isprintable():
        return text
    text = text.translate(_escapes())
    return text if text.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in text)


@cache
def _escapes() -> dict[int, str]:
    """Return the escapes of control characters, which are frequent in binary contents."""
    return {code: _escaped(chr(code)) for code in range(0xA1) if not chr(code).isprintable()}


def _escaped(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # a byte of a name that is not UTF-8
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()


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
        return re.sub(pattern, lambda match: colour(match[0]), text, count=1)

    def commands(self, text: str) -> str:
        """Return the text with its commands bold: the words between backticks, and `kafkalog undo`."""
        return re.sub(_COMMANDS, lambda match: self.heading(match[0]), text) if self.is_on else text

    def wrapped(self, text: str, *, indent: str = "") -> str:
        """Break a line of plain text between words; the following lines begin with `indent`."""
        width = self.width
        if width is None or columns_of(text) <= width or re.match(_IS_COMMAND, text):
            return text
        return "\n".join(_broken(text, max(width, len(indent) + _LEAST_COLUMNS), indent))

    def _in(self, colour: str, text: str) -> str:
        return f"{colour}{text}{_END}" if self.is_on and text else text


NO_PAINT = Paint()
_COMMANDS = r"`[^`\n]+`|kafkalog undo (?:'[^']*'|[^ \n])+ [^ \n]+"
_LEAST_COLUMNS = 20
_IS_COMMAND = r" *(?:next: )?kafkalog [a-z-]+ [^,:]*$"
"""A line with nothing but a command stays whole, so that it can be pasted."""


def paint_of(stream: ResultStream) -> Paint:
    """Return the paint for a stream: only a terminal has colours and a width, and NO_COLOR turns colours off."""
    if not stream.is_terminal:
        return NO_PAINT
    return Paint(has_styles(), terminal_columns())


_WORD = (
    r"kafkalog undo (?:'[^']*'|[^ ])+ [^ ]+"
    r"|\(?\d[\d.,:]* (?:ms|s|min|bytes|[KMGTPE]iB)\b[^ ]*"
    r"|(?:`[^`]*`|[^ ])+"
)
"""A word. A number stays with its unit, and a command in one line, so that it can be pasted."""


def _broken(text: str, width: int, indent: str) -> Iterator[str]:
    """Yield lines of at most `width` characters; a word that is longer, such as a path, has a line of its own."""
    line = text[: len(text) - len(text.lstrip(" "))]
    is_empty = True
    for word in re.findall(_WORD, text):
        if not is_empty and columns_of(line) + 1 + columns_of(word) > width:
            yield line
            line, is_empty = indent, True
        line += word if is_empty else f" {word}"
        is_empty = False
    yield line

"""Output streams: ResultStream gathers text into large writes; also the terminal's size, styles and escapes."""

from __future__ import annotations

import os
from functools import cache
from io import RawIOBase
from typing import Any, BinaryIO

FLUSH_CHARACTERS = 1 << 16
_USUAL_COLUMNS = 80


class ResultStream:
    """Gathers text and writes it in large blocks (the JVM tool spends its time on one flushed write per line).

    Text is UTF-8; surrogate escapes from file names are written as the original bytes.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._parts: list[str] = []
        self._characters = 0
        self.is_terminal = stream.isatty()

    def write(self, text: str) -> None:
        """Append text."""
        self._parts.append(text)
        self._characters += len(text)
        if self._characters >= FLUSH_CHARACTERS:
            self._drain()

    def write_bytes(self, data: memoryview | bytes) -> None:
        """Append bytes that are rendered already."""
        self._drain()
        self._stream.write(data)

    def flush(self) -> None:
        """Flush everything to the operating system."""
        self._drain()
        self._stream.flush()

    def _drain(self) -> None:
        if self._parts:
            self._stream.write("".join(self._parts).encode("utf-8", "surrogateescape"))
            self._parts.clear()
            self._characters = 0


class Undisturbed(RawIOBase):
    """A stream that ignores the loss of its reader: later output is lost, but the writer's work continues.

    `end` raises BrokenPipeError if the reader is gone.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._has_reader = True

    def write(self, data: Any) -> int:  # noqa: D102
        if self._has_reader:
            try:
                self._stream.write(data)
            except BrokenPipeError:
                self._has_reader = False
        return len(data)

    def flush(self) -> None:  # noqa: D102
        if self._has_reader:
            try:
                self._stream.flush()
            except BrokenPipeError:
                self._has_reader = False

    def close(self) -> None:
        """Do nothing: the stream belongs to the caller, who closes it."""

    def isatty(self) -> bool:  # noqa: D102
        return self._stream.isatty()

    def end(self) -> None:
        """Flush everything. Raises BrokenPipeError if the reader is gone."""
        self.flush()
        if not self._has_reader:
            raise BrokenPipeError


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

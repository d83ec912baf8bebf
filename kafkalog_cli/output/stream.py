"""Where results go: text gathered into large writes, messages to the error stream."""

from __future__ import annotations

import os
import shutil
from functools import cache
from io import RawIOBase
from typing import Any, BinaryIO

FLUSH_CHARACTERS = 1 << 16
_USUAL_COLUMNS = 80


class ResultStream:
    """Gathers text and writes it in large blocks (the JVM tool's time is one flushed write a line).

    Text is UTF-8; what came from file names as surrogate escapes goes out as the bytes it was.
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
        """Hand everything to the operating system."""
        self._drain()
        self._stream.flush()

    def _drain(self) -> None:
        if self._parts:
            self._stream.write("".join(self._parts).encode("utf-8", "surrogateescape"))
            self._parts.clear()
            self._characters = 0


class Undisturbed(RawIOBase):
    """A stream whose reader may go away: what is written then is lost, and whoever writes goes on with its work.

    `end` raises BrokenPipeError if that has happened.
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
        """Nothing: the stream is somebody else's, and may be closed when this one is no longer needed."""

    def isatty(self) -> bool:  # noqa: D102
        return self._stream.isatty()

    def end(self) -> None:
        """Hand everything on. Raises BrokenPipeError if nobody reads it."""
        self.flush()
        if not self._has_reader:
            raise BrokenPipeError


def has_styles() -> bool:
    """Whether a terminal gets escape codes, bold and dim among them: not with NO_COLOR, nor on one that has none."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in ("dumb", "unknown")


def terminal_columns() -> int:
    """How many characters a line of the terminal holds; Python 3.10 says 0 of a terminal that has no size."""
    return shutil.get_terminal_size().columns or _USUAL_COLUMNS


def printable(text: str) -> str:
    """`text` without raw control characters, for messages that quote names and contents."""
    if text.isprintable():
        return text
    text = text.translate(_escapes())
    return text if text.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in text)


@cache
def _escapes() -> dict[int, str]:
    """The escapes of control characters, which binary contents are full of."""
    return {code: _escaped(chr(code)) for code in range(0xA1) if not chr(code).isprintable()}


def _escaped(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # a byte of a name that is not UTF-8
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()

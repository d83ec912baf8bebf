"""The user's terminal: a question before valid data are removed. Cron jobs and pipes are never asked."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Protocol

from kafkalog_cli.errors import NotChanged
from kafkalog_cli.format.surroundings import restored_variables
from kafkalog_cli.output.stream import has_styles, terminal_columns

POLL_SECONDS = 0.1


class Terminal(Protocol):
    """A terminal with a user who can answer."""

    def answer(self, question: str, poll: Callable[[], None]) -> str:
        """Ask, and return the typed line, "" at the end of input; `poll` is called repeatedly and may raise."""


class StandardTerminal:
    """The terminal of standard input and standard error."""

    def answer(self, question: str, poll: Callable[[], None]) -> str:
        """See Terminal."""
        import select  # every command imports this module, few ask

        sys.stderr.write(question)
        sys.stderr.flush()
        while not select.select([sys.stdin], [], [], POLL_SECONDS)[0]:
            poll()
        return sys.stdin.readline()


def standard_terminal() -> Terminal | None:
    """Return the user's terminal if standard input and standard error are both terminals, else None."""
    streams = (sys.stdin, sys.stderr)
    if any(stream is None or stream.closed or not stream.isatty() for stream in streams):
        return None
    return StandardTerminal()


@contextmanager
def styles_as_wanted() -> Iterator[None]:
    """Make rich print help and errors without escape codes if `has_styles` is false.

    With NO_COLOR, rich leaves out colours but keeps bold; on a dumb terminal it prints neither. Typer crashes if
    TERMINAL_WIDTH is not a number, so such a value is removed.
    """
    with restored_variables("TERM", "COLUMNS", "TERMINAL_WIDTH"):
        if not os.environ.get("TERMINAL_WIDTH", "").isdecimal():
            os.environ.pop("TERMINAL_WIDTH", None)
        if not has_styles():
            os.environ["COLUMNS"] = str(terminal_columns())  # rich takes 80 for a dumb terminal
            os.environ["TERM"] = "dumb"
        yield


class Consent:
    """Asks once per partition, or once for all remaining partitions; threads share it."""

    def __init__(self, terminal: Terminal, poll: Callable[[], None]) -> None:
        self._terminal = terminal
        self._poll = poll
        self._is_for_all = False
        self._asking = Lock()

    def need(self, path: str, question: str) -> None:
        """Ask a question, without a question mark, before a partition is changed.

        Raises NotChanged if the user refuses, and the exceptions of `poll`.
        """
        with self._asking:
            if self._is_for_all:
                return
            self._poll()
            answer = self._terminal.answer(f"{question}? [y/N/a(ll)] ", self._poll).strip().lower()
            self._is_for_all = answer in ("a", "all")
            if not self._is_for_all and answer not in ("y", "yes"):
                raise NotChanged(path=path, reason="no consent was given")

"""The terminal of whoever calls: a question there, before what drops valid data; cron and pipes are never asked."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Protocol

from kafkalog_cli.errors import NotChanged
from kafkalog_cli.output.stream import has_styles, terminal_columns

POLL_SECONDS = 0.1


class Terminal(Protocol):
    """Where somebody can be asked."""

    def answer(self, question: str, poll: Callable[[], None]) -> str:
        """The line that is typed, "" at the end of input; `poll` is called now and then, and may raise."""


class StandardTerminal:
    """Standard input and standard error."""

    def answer(self, question: str, poll: Callable[[], None]) -> str:
        """See Terminal."""
        import select  # every command imports this module, hardly any asks

        sys.stderr.write(question)
        sys.stderr.flush()
        while not select.select([sys.stdin], [], [], POLL_SECONDS)[0]:
            poll()
        return sys.stdin.readline()


def standard_terminal() -> Terminal | None:
    """Standard input and error where both are a terminal, else None."""
    streams = (sys.stdin, sys.stderr)
    if any(stream is None or stream.closed or not stream.isatty() for stream in streams):
        return None
    return StandardTerminal()


@contextmanager
def styles_as_wanted() -> Iterator[None]:
    """Have rich print help and errors without escape codes where `has_styles` says so.

    It leaves out colours with NO_COLOR, and keeps bold; to a dumb terminal it prints neither. Typer, besides, does not
    survive a TERMINAL_WIDTH that is no number.
    """
    before = {name: os.environ.get(name) for name in ("TERM", "COLUMNS", "TERMINAL_WIDTH")}
    if not (before["TERMINAL_WIDTH"] or "").isdecimal():
        os.environ.pop("TERMINAL_WIDTH", None)
    if not has_styles():
        os.environ["COLUMNS"] = str(terminal_columns())  # to rich, a dumb one has always 80
        os.environ["TERM"] = "dumb"
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class Consent:
    """Asks once for each partition, or for all that are still to come; threads share it."""

    def __init__(self, terminal: Terminal, poll: Callable[[], None]) -> None:
        self._terminal = terminal
        self._poll = poll
        self._is_for_all = False
        self._asking = Lock()

    def need(self, path: str, what: str) -> None:
        """`what` is about to happen to a partition. Raises NotChanged if that is not wanted, and what `poll` raises."""
        with self._asking:
            if self._is_for_all:
                return
            self._poll()
            question = f"kafkalog: {path}: {what}: go on? [y]es, [N]o, [a]ll of them: "
            answer = self._terminal.answer(question, self._poll).strip().lower()
            self._is_for_all = answer in ("a", "all")
            if not self._is_for_all and answer not in ("y", "yes"):
                raise NotChanged(path=path, reason="it was not confirmed")

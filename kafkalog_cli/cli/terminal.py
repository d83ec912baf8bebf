"""The terminal of whoever calls: a question there, before what drops valid data; cron and pipes are never asked."""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import Lock
from typing import Protocol

from kafkalog_cli.errors import NotChanged

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

"""Who hears of a session: the command line prints what it hears, the library collects it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, Protocol

from kafkalog_cli.errors import ExitCode, KafkalogError


class Note(NamedTuple):
    """A fact beside the results: a warning, or with `is_error` a problem; `kind` is a word for programs."""

    kind: str
    message: str
    path: str | None = None
    next_step: str = ""
    is_error: bool = False
    exit_code: ExitCode | None = None


class Observer(Protocol):
    """All methods but `advance`, `expect_more`, `report_now` and `consent` are called in the session's own thread."""

    def working(self) -> AbstractContextManager[object]:
        """The session is at work while this is open."""

    def begin(self, work: str, total_bytes: int | None) -> None:
        """So many bytes are to be looked at from now on, by `work`; None: the number is not known."""

    def expect_more(self, size_bytes: int) -> None:
        """So many bytes more are to be looked at than were expected; below 0: so many less."""

    def advance(self, size_bytes: int, subject: str = "") -> None:
        """So many more bytes were looked at, of the file or directory `subject`."""

    def report(self, note: Note) -> None:
        """A fact to be told before the next result."""

    def report_now(self, notes: Sequence[Note]) -> None:
        """Facts to be told before a partition is changed, while the change can still be stopped."""

    def fail(self, error: KafkalogError, *, is_told: bool) -> None:
        """A partition failed. `is_told`: what is wrong was reported with another partition."""

    def show(self, result: Any) -> None:
        """The result of a verb on a partition."""

    def consent(self, path: str, plan: Any) -> None:
        """Valid records are about to go, as `plan` says. Raises NotChanged if that is not wanted."""

    def consent_to_all(self, verb: str, partitions: int) -> None:
        """The same before tasks begin elsewhere, which cannot ask. Raises NotChanged."""


class SilentObserver:
    """In a task elsewhere: nobody is there to read, or to be asked."""

    def working(self) -> AbstractContextManager[object]:
        """See Observer."""
        return nullcontext()

    def begin(self, work: str, total_bytes: int | None) -> None:
        """See Observer."""

    def expect_more(self, size_bytes: int) -> None:
        """See Observer."""

    def advance(self, size_bytes: int, subject: str = "") -> None:
        """See Observer."""

    def report(self, note: Note) -> None:
        """See Observer."""

    def report_now(self, notes: Sequence[Note]) -> None:
        """See Observer."""

    def fail(self, error: KafkalogError, *, is_told: bool) -> None:
        """See Observer."""

    def show(self, result: Any) -> None:
        """See Observer."""

    def consent(self, path: str, plan: Any) -> None:
        """See Observer."""

    def consent_to_all(self, verb: str, partitions: int) -> None:
        """See Observer."""

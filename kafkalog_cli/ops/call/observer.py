"""Receives the results and notes of a verb: the command line prints them, the library collects them.

`LockWarnings` reports to it, for readers, that a running broker holds a lock.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.lock import log_dir_of
from kafkalog_cli.disk.posix_lock import LockOwner, lock_owner
from kafkalog_cli.errors import ExitCode, KafkalogError
from kafkalog_cli.ops.call.interruptions import Interruptions
from kafkalog_cli.ops.call.options import Context
from kafkalog_cli.ops.log_warning import warn
from kafkalog_cli.ops.selection import in_its_log_dir


class Note(NamedTuple):
    """A fact beside the results: a warning, or with `is_error` a problem. `kind` is a stable word for JSON output.

    `host` is where the path is, None for this machine.
    """

    kind: str
    message: str
    path: str | None = None
    next_step: str = ""
    is_error: bool = False
    exit_code: ExitCode | None = None
    host: str | None = None


class NoProgress:
    """Shows no progress. The call enters it while it works; any thread may call `advance` and `expect_more`."""

    is_shown = False
    """If progress is not shown, a total that costs reads is not computed."""

    def __enter__(self) -> object:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the work."""

    def begin(self, work: str, total_bytes: int | None) -> None:
        """Start progress for `work`: `total_bytes` are to be read, None if the total is unknown."""

    def expect_more(self, size_bytes: int) -> None:
        """Add `size_bytes` to the expected total; a negative number reduces it."""

    def advance(self, size_bytes: int, subject: str = "") -> None:
        """Report that `size_bytes` more were read from the file or directory `subject`."""


NO_PROGRESS = NoProgress()


class Observer:
    """Collects the results, errors and notes of one call of a verb, and agrees to every change.

    Each note is a LogWarning too, except those of the kinds in `unheard`. `argv` is the command line, () if there is
    none. Only `report_now` and `consent` may be called from other threads than the call's own.
    """

    progress = NO_PROGRESS
    argv: tuple[str, ...] = ()
    raises_interrupts = True
    """Whether a call that was interrupted ends with KeyboardInterrupt; if not, its exit code says so."""

    def __init__(self, context: Context | None = None, unheard: frozenset[str] = frozenset()) -> None:
        self.context = context or Context()
        self.interruptions = Interruptions()
        self.results: list[Any] = []
        self.errors: list[KafkalogError] = []
        self.notes: list[Note] = []
        self._unheard = unheard

    def report(self, note: Note) -> None:
        """Report a fact, before the next result."""
        if note.kind not in self._unheard:
            self.notes.append(note)
            warn(note.message, note.path)

    def report_now(self, notes: Sequence[Note]) -> None:
        """Report facts before a partition is changed, while the user can still stop the change."""
        for note in notes:
            self.report(note)

    def fail(self, error: KafkalogError, *, path: str | None = None, was_reported: bool = False) -> None:
        """Report that the partition at `path` failed. `was_reported`: with another partition."""
        del path, was_reported
        self.errors.append(error)

    def show(self, result: Any) -> None:
        """Show the result of a verb on a partition."""
        self.results.append(result)

    def consent(self, path: str, plan: Any) -> None:
        """Ask before `plan` removes valid records. Raises NotChanged if the answer is no."""


def lock_sentence(owner: LockOwner) -> str:
    """Return a sentence that names the lock's owner and warns that the files may change."""
    who = "a broker is running on it" if owner.is_exclusive else "a kafkalog command is changing it"
    return f"{who} ({'pid unknown' if owner.pid is None else f'pid {owner.pid}'}): what is read may change"


class LockWarnings:
    """Checks the lock of each log directory once, and reports its owner."""

    def __init__(self, fs: Filesystem, report: Callable[[Note], None]) -> None:
        self._fs = fs
        self._report = report
        self._checked: set[str] = set()
        self._directories: set[str] = set()

    def about_partitions(self, *directories: str) -> None:
        """Warn of locked log directories of these partition directories."""
        for directory in directories:
            if directory in self._directories:
                continue
            self._directories.add(directory)
            try:
                log_dir = log_dir_of(self._fs, in_its_log_dir(self._fs, directory))
            except (KafkalogError, OSError):
                continue  # whoever reads the directory reports it
            if log_dir is not None:
                self.about(log_dir)

    def about(self, *log_dirs: str) -> None:
        """Warn of each of these log directories that is locked. An OSError while checking is ignored."""
        for log_dir in log_dirs:
            if log_dir in self._checked:
                continue
            self._checked.add(log_dir)
            try:
                owner = lock_owner(log_dir)
            except OSError:
                continue
            if owner is not None:
                self._report(Note("locked", lock_sentence(owner), log_dir))

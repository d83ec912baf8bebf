"""The choice between kernels in plain Python, which start at once, and compiled kernels, which pay for more work.

No other module makes this choice. Measured: loading compiled kernels takes about 0.15 s, and compiling them the
first time takes 5 to 20 s. A plain kernel processes about 0.2 to 0.6 million rows per second.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from kafkalog_cli import __version__

if TYPE_CHECKING:
    import tempfile

    from kafkalog_cli.format.kernels import Kernels

WARM_ROWS = 60_000
"""The least number of rows (batches, or records where these are read) for which loading compiled kernels pays."""
COLD_ROWS = 4_000_000
"""The same if the kernels must be compiled first."""
LOADED_ROWS = 2_000
"""The same if this process has loaded the kernels already."""
LOADED_BYTES = 128 << 10
"""The same in bytes, for a log with an unknown number of rows, so that plain kernels do not begin a second segment."""

MENDING = "python -m pip install --force-reinstall kafkalog-cli, then kafkalog warmup, which says whether they load"
"""The advice to the user if compiled kernels do not load."""


COMPILING = "compiling the fast kernels, once per machine and version: 20 to 90 s of processor time"


class KernelChoice:
    """Chooses kernels by the number of rows processed so far and the number of rows to come.

    `announce` is called once before kernels are compiled for the first time on this
    machine. `complain` is called once, with a message and an advice, if compiled kernels do not load.
    `forced`: True always uses compiled kernels, False never.
    """

    def __init__(
        self,
        *,
        announce: Callable[[], None] | None = None,
        complain: Callable[[str, str], None] | None = None,
        forced: bool | None = None,
    ) -> None:
        self.announce = announce
        self.complain = complain or _warn
        self._forced = forced
        self._plain_rows = 0
        self._expected_bytes = 0
        self._compiled: Kernels | None = None
        self._unavailable = False
        self._loading = Lock()
        self._counting = Lock()  # a second lock, so that counting does not wait for a compilation

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle only `forced` and the expected bytes: loaded kernels and callbacks belong to this process."""
        return _chosen_elsewhere, (self._forced, self._expected_bytes)

    def expect(self, size_bytes: int) -> None:
        """Set the total bytes of log to scan: many small logs together are worth compiled kernels and their threads."""
        self._expected_bytes = size_bytes

    def compiled(self, rows_done: int, rows_to_come: int, bytes_to_come: int = 0) -> Kernels | None:
        """Return the module of compiled kernels if they should process the rows to come, otherwise None.

        `bytes_to_come` is the size of these rows; 0 if it is not known.
        """
        if self._compiled is None and rows_done:
            with self._counting:
                self._plain_rows += rows_done
        if self._unavailable or self._forced is False:
            return None
        if self._compiled is None:
            all_rows = rows_to_come
            if bytes_to_come:  # assume that the other expected bytes contain as many rows per byte
                all_rows = max(rows_to_come, rows_to_come * self._expected_bytes // bytes_to_come)
            if self._forced or all_rows >= self._threshold():
                self._load_once()
        return self._compiled if self._forced or rows_to_come >= LOADED_ROWS else None

    def from_the_start(self, bytes_to_come: int = 0) -> Kernels | None:
        """Return the module of compiled kernels if they should begin a log with an unknown number of rows, or None."""
        if self._forced:
            return self.compiled(0, LOADED_ROWS)
        return self._compiled if bytes_to_come >= LOADED_BYTES else None

    def _threshold(self) -> int:
        return (WARM_ROWS if is_warm() else COLD_ROWS) - self._plain_rows

    def _load_once(self) -> None:
        """Load the kernels unless another thread has done it: several threads may process partitions."""
        with self._loading:
            if self._compiled is None and not self._unavailable:
                self._load()

    def _load(self) -> None:
        cold = not is_warm()
        if cold and self.announce is not None:
            self.announce()
        try:
            self._compiled = load_compiled()
            if cold:
                warm_up_kernels()
        except Exception as error:
            # Numba is missing or fails on this platform: plain kernels process everything.
            if self._forced:
                raise
            self._compiled = None
            self._unavailable = True
            self.complain(f"the compiled kernels do not load, and plain Python is slower: {reason_of(error)}", MENDING)


def _warn(message: str, next_step: str) -> None:
    """Report as a Python warning. Used if the caller gives no `complain`: in the library and in Spark tasks."""
    import warnings

    warnings.warn(f"kafkalog: {message} (next: {next_step})", RuntimeWarning, stacklevel=2)


def reason_of(error: Exception) -> str:
    """Return an exception's type and the first line of its message."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _chosen_elsewhere(forced: bool | None, expected_bytes: int) -> KernelChoice:
    choice = KernelChoice(forced=forced)
    choice.expect(expected_bytes)
    return choice


def load_compiled() -> Kernels:
    """Load the compiled kernels. Raises ImportError where Numba does not exist for this platform."""
    # NumPy's linear algebra is not used, but its busy threads would take longer to start than everything else here.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from kafkalog_cli.format.kernels import compiled, native

    if "numba" not in sys.modules:
        _point_numba_to_it()
        saved = _machine_code_file()
        if saved.exists():
            native.use(native.unpack(saved.read_bytes(), _made_for()))
    native.function(compiled.SCAN)  # imports Numba if there is no machine code of this processor and these sources
    return compiled


def _point_numba_to_it() -> None:
    """Make Numba, which reads the variable when it is imported, keep its cache in kafkalog's cache directory.

    An empty variable counts as not set.
    """
    os.environ["NUMBA_CACHE_DIR"] = str(cache_directory())


def warm_up_kernels() -> None:
    """Compile the kernels of all layers into Numba's cache, save their machine code, and mark the cache as ready.

    Importing a module of kernels compiles them, or loads them from Numba's cache. The first process compiles all
    kernels: if the file had only some of them, each later process would have to import Numba for the others.
    """
    import importlib

    _point_numba_to_it()
    from kafkalog_cli.format.kernels import native

    with native.by_our_settings():
        for path in _sources():
            importlib.import_module(f"{__package__.partition('.')[0]}.{path.parts[-3]}.kernels.{path.stem}")
        exported = native.export()
    marker = _marker()
    if marker.parent.is_dir():
        saved = _machine_code_file()
        new = saved.with_name(f"{saved.name}.{os.getpid()}")
        new.write_bytes(native.pack(exported, _made_for()))
        new.rename(saved)
        marker.touch()


def _made_for() -> list[str]:
    """Return the processor and the stamps of the kernels' sources, for which the machine code is valid."""
    from kafkalog_cli.format.kernels import native

    # A single-file executable unpacks itself for each run, and its sources are as old as the run.
    files = [Path(sys.executable)] if _is_single_file() else _sources()
    stamps = (f"{path.name} {path.stat().st_mtime_ns} {path.stat().st_size}" for path in files)
    return [native.processor(), *stamps]


def _is_single_file() -> bool:
    """Whether this is the executable of `make dist`, which does not share compiled kernels with an installation."""
    return bool(getattr(sys, "frozen", False))


def _own_suffix() -> str:
    """Return the end of names of the executable's own files, which may lie beside those of an installation."""
    return "-single-file" if _is_single_file() else ""


def _sources() -> list[Path]:
    """Return the paths of the modules of kernels in all layers."""
    package = Path(__file__).parents[1]
    return sorted(path for layer in ("format", "output") for path in (package / layer / "kernels").glob("[!_]*.py"))


def _machine_code_file() -> Path:
    return cache_directory() / f"machine-code{_own_suffix()}"


def is_warm() -> bool:
    """Whether the kernels were compiled on this machine before, or are loaded already."""
    return "kafkalog_cli.format.kernels.compiled" in sys.modules or _marker().exists()


def cache_directory() -> Path:
    """Return the directory for compiled kernels: $NUMBA_CACHE_DIR, the user's cache, or a temporary directory.

    The user's cache is used only if it belongs to this user and nobody else can write to it: its files are executed.
    """
    directory = _usual_directory()
    if os.environ.get("NUMBA_CACHE_DIR"):
        return directory
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_ours(directory) and os.access(directory, os.W_OK):
            return directory
    except OSError:
        pass
    return Path(_temporary_directory().name)


def trusted_cache_directory() -> Path | None:
    """Return the directory for compiled code that outlasts this process; None if another user can change its files.

    It belongs to this user, or to root where $NUMBA_CACHE_DIR names a directory for all users.
    """
    directory = cache_directory()
    try:
        return directory if directory == _usual_directory() and is_trusted(directory.stat()) else None
    except OSError:
        return None


def is_trusted(status: os.stat_result) -> bool:
    """Whether a file or directory belongs to this user or to root, and nobody else can write to it."""
    is_writable = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return status.st_uid in (0, os.getuid()) and not is_writable


@cache
def _temporary_directory() -> tempfile.TemporaryDirectory[str]:
    """Return a temporary directory that is removed when this process ends."""
    import tempfile

    return tempfile.TemporaryDirectory(prefix="kafkalog-")


def _is_ours(directory: Path) -> bool:
    status = directory.stat()
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _usual_directory() -> Path:
    if os.environ.get("NUMBA_CACHE_DIR"):
        return Path(os.environ["NUMBA_CACHE_DIR"])
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111  (never raises)
    return Path(base) / "kafkalog" / f"kernels-{__version__}{_own_suffix()}"


def _marker() -> Path:
    return _usual_directory() / f"ready-{sys.version_info[0]}.{sys.version_info[1]}{_own_suffix()}"

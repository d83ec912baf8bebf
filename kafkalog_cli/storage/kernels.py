"""Which kernels serve: plain Python at once, or the compiled ones when the work is worth their start.

The one place that decides (measured: loading compiled kernels takes about 0.15 s, compiling them the
first time 5 to 20 s; a plain kernel does some 0.2 to 0.6 million rows a second).
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from kafkalog_cli import __version__

if TYPE_CHECKING:
    import tempfile

WARM_ROWS = 60_000
"""Rows (batches, or records where they are read) from which loading compiled kernels pays."""
COLD_ROWS = 4_000_000
"""The same where they must be compiled first."""
LOADED_ROWS = 2_000
"""The same where this process has loaded them already."""
LOADED_BYTES = 128 << 10
"""The same in bytes of a log of which nothing is known yet: a second segment is not begun by plain kernels."""

MENDING = "python -m pip install --force-reinstall kafkalog-cli, then kafkalog warmup, which says whether they load"
"""What to do where they do not load."""


class KernelChoice:
    """Chooses kernels by the rows done so far and those to come.

    `announce` is told once, with the seconds it may take, before kernels are compiled for the first time
    on this machine. `complain` is told once, with a sentence and what to do, where they do not load.
    """

    def __init__(
        self,
        *,
        announce: Callable[[float], None] | None = None,
        complain: Callable[[str, str], None] | None = None,
        forced: bool | None = None,
    ) -> None:
        self._announce = announce
        self.complain = complain or _warn
        self._forced = forced
        self._plain_rows = 0
        self._expected_bytes = 0
        self._compiled: Any = None
        self._unavailable = False
        self._loading = Lock()
        self._counting = Lock()  # its own: nobody who counts waits for a compilation

    def __reduce__(self) -> tuple[object, ...]:
        """For another process: what is expected in all; what is loaded, and who hears of it, is here."""
        return _chosen_elsewhere, (self._forced, self._expected_bytes)

    def expect(self, size_bytes: int) -> None:
        """So much log is to be scanned in all: many small logs are worth compiled kernels too, and their threads."""
        self._expected_bytes = size_bytes

    def compiled(self, rows_done: int, rows_to_come: int, bytes_to_come: int = 0) -> Any:
        """The module of compiled kernels if they should do the rows to come, which are in so many bytes; else None."""
        if self._compiled is None and rows_done:
            with self._counting:
                self._plain_rows += rows_done
        if self._unavailable or self._forced is False:
            return None
        if self._compiled is None:
            all_rows = rows_to_come
            if bytes_to_come:  # what else is expected has as many rows a byte
                all_rows = max(rows_to_come, rows_to_come * self._expected_bytes // bytes_to_come)
            if self._forced or all_rows >= self._threshold():
                self._load_once()
        return self._compiled if self._forced or rows_to_come >= LOADED_ROWS else None

    def from_the_start(self, bytes_to_come: int = 0) -> Any:
        """The module of compiled kernels if they are to be used whatever the rows in so many bytes, else None."""
        if self._forced:
            return self.compiled(0, LOADED_ROWS)
        return self._compiled if bytes_to_come >= LOADED_BYTES else None

    def _threshold(self) -> int:
        return (WARM_ROWS if is_warm() else COLD_ROWS) - self._plain_rows

    def _load_once(self) -> None:
        """Partitions may be looked at in several threads."""
        with self._loading:
            if self._compiled is None and not self._unavailable:
                self._load()

    def _load(self) -> None:
        cold = not is_warm()
        if cold and self._announce is not None:
            self._announce(15.0)
        try:
            self._compiled = load_compiled()
            if cold:
                warm_up_kernels()
        except Exception as error:
            # No Numba for this platform, or one that fails on it: the plain kernels serve all.
            if self._forced:
                raise
            self._compiled = None
            self._unavailable = True
            self.complain(f"the compiled kernels do not load, and plain Python is slower: {reason_of(error)}", MENDING)


def _warn(message: str, next_step: str) -> None:
    """Where nobody said who hears of it: in the library, and in tasks of Spark."""
    import warnings

    warnings.warn(f"kafkalog: {message} (next: {next_step})", RuntimeWarning, stacklevel=2)


def reason_of(error: Exception) -> str:
    """An exception in a line."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _chosen_elsewhere(forced: bool | None, expected_bytes: int) -> KernelChoice:
    choice = KernelChoice(forced=forced)
    choice.expect(expected_bytes)
    return choice


def load_compiled() -> Any:
    """Load the compiled kernels. Raises ImportError where Numba does not exist for this platform."""
    # NumPy's linear algebra, of which nothing is used, starts threads that spin, and take longer than all else here.
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
    """Have Numba, which reads this when it is imported, keep its cache where ours is; an empty name is none."""
    os.environ["NUMBA_CACHE_DIR"] = str(cache_directory())


def warm_up_kernels() -> None:
    """Compile the kernels of all layers into the cache, save the machine code beside it, and remember that it was done.

    To import a module of kernels compiles them, or loads them from Numba's cache. Whoever comes first does it for all:
    with a part of them in the file everybody after would import Numba for the rest.
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
    """The processor, and the sources of the kernels."""
    from kafkalog_cli.format.kernels import native

    stamps = (f"{path.name} {path.stat().st_mtime_ns} {path.stat().st_size}" for path in _sources())
    return [native.processor(), *stamps]


def _sources() -> list[Path]:
    """The modules of kernels, of all layers that have any."""
    package = Path(__file__).parents[1]
    return sorted(path for layer in ("format", "output") for path in (package / layer / "kernels").glob("[!_]*.py"))


def _machine_code_file() -> Path:
    return cache_directory() / "machine-code"


def is_warm() -> bool:
    """Whether the kernels were compiled on this machine before, or are loaded already."""
    return "kafkalog_cli.format.kernels.compiled" in sys.modules or _marker().exists()


def cache_directory() -> Path:
    """Where compiled kernels are kept: $NUMBA_CACHE_DIR, the user's cache, else a directory for this run.

    Only a directory of ours that nobody else can write to: what lies there is executed.
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


@cache
def _temporary_directory() -> tempfile.TemporaryDirectory[str]:
    """A directory for this process, which goes with it."""
    import tempfile

    return tempfile.TemporaryDirectory(prefix="kafkalog-")


def _is_ours(directory: Path) -> bool:
    status = directory.stat()
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _usual_directory() -> Path:
    if os.environ.get("NUMBA_CACHE_DIR"):
        return Path(os.environ["NUMBA_CACHE_DIR"])
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111  (never raises)
    return Path(base) / "kafkalog" / f"kernels-{__version__}"


def _marker() -> Path:
    return _usual_directory() / f"ready-{sys.version_info[0]}.{sys.version_info[1]}"

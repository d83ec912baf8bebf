"""The choice between kernels in plain Python, which start at once, and compiled kernels, which pay for more work.

No other module makes this choice. Measured: loading compiled kernels takes about 0.15 s. Compiling those of one
command the first time takes 2 to 10 s. A plain kernel processes about 0.2 to
0.6 million rows per second.
"""

from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING

from kafkalog_cli import __version__
from kafkalog_cli.format.kernels import Kernels, native

if TYPE_CHECKING:
    from pathlib import Path


WARM_ROWS = 60_000
"""The least number of rows (batches, or records where these are read) for which loading compiled kernels pays."""
COLD_ROWS = 1_000_000
"""The same if the kernels must be compiled first."""
LOADED_ROWS = 2_000
"""The same if this process has loaded the kernels already."""
LOADED_BYTES = 128 << 10
"""The same in bytes, for a log with an unknown number of rows, so that plain kernels do not begin a second segment."""

MENDING = "python -m pip install --force-reinstall kafkalog-cli, then kafkalog warmup, which says whether they load"
"""The advice to the user if compiled kernels do not load."""


_ALL = "all"
"""The name of the file that says that there are files for all kernels."""

COMPILING = "compiling fast kernels, once per machine and version: 2 to 20 s of processor time"


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
        self._needed = {native.DECODE_BATCHES}
        self._plain_rows = 0
        self._expected_bytes = 0
        self._compiled: Kernels | None = None
        self._unavailable = False
        self._loading = Lock()
        self._counting = Lock()  # a second lock, so that counting does not wait for a compilation

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle what was asked for: loaded kernels and callbacks belong to this process."""
        return _chosen_elsewhere, (self._forced, self._expected_bytes, self._needed)

    def expect(self, size_bytes: int) -> None:
        """Set the total bytes of log to scan: many small logs together are worth compiled kernels and their threads."""
        self._expected_bytes = size_bytes

    def need(self, *names: str) -> None:
        """Name more kernels that will be used: as long as one of them is not compiled, more rows are needed."""
        self._needed.update(names)

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
            if self._forced or self._are_enough(all_rows + self._plain_rows):
                self._load_once()
        return self._compiled if self._forced or rows_to_come >= LOADED_ROWS else None

    def from_the_start(self, bytes_to_come: int = 0) -> Kernels | None:
        """Return the module of compiled kernels if they should begin a log with an unknown number of rows, or None."""
        if self._forced:
            return self.compiled(0, LOADED_ROWS)
        return self._compiled if bytes_to_come >= LOADED_BYTES else None

    def _are_enough(self, rows: int) -> bool:
        return rows >= WARM_ROWS and (rows >= COLD_ROWS or are_ready(self._needed))

    def _load_once(self) -> None:
        """Load the kernels unless another thread has done it: several threads may process partitions."""
        with self._loading:
            if self._compiled is None and not self._unavailable:
                self._load()

    def _load(self) -> None:
        try:
            if self.announce is not None and not are_ready(self._needed):
                self.announce()
            compiled = load_compiled()
            for name in tuple(self._needed):
                native.function(name)
            self._compiled = compiled
        except Exception as error:
            # Numba is missing or fails on this platform: plain kernels process everything.
            if self._forced:
                raise
            self._compiled = None
            self._unavailable = True
            self.complain(f"the compiled kernels do not load, and plain Python is slower: {reason_of(error)}", MENDING)


def _warn(message: str, next_step: str) -> None:
    """Report as a Python warning. Used if the caller gives no `complain`: in the library and in Spark tasks."""
    warnings.warn(f"kafkalog: {message} (next: {next_step})", RuntimeWarning, stacklevel=2)


def reason_of(error: Exception) -> str:
    """Return an exception's type and the first line of its message."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _chosen_elsewhere(forced: bool | None, expected_bytes: int, needed: set[str]) -> KernelChoice:
    choice = KernelChoice(forced=forced)
    choice.expect(expected_bytes)
    choice.need(*needed)
    return choice


def load_compiled() -> Kernels:
    """Load the compiled kernels. Raises ImportError where Numba does not exist for this platform."""
    # NumPy's linear algebra is not used, but its busy threads would take longer to start than everything else here.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from kafkalog_cli.format.kernels import compiled

    native.keep_in(_CodeFiles())
    return compiled


def warm_up_kernels() -> None:
    """Compile the kernels of all layers that were not compiled before."""
    if is_warm():
        load_compiled()  # it may fail
        return
    files = _CodeFiles()
    native.keep_in(files)
    for name in all_kernels():
        native.machine_code(name)
    files.save(_ALL, b"")


def all_kernels() -> list[str]:
    """Return the names of the kernels of all layers. Imports Numba."""
    package = __package__.partition(".")[0]
    return native.names_in(f"{package}.{path.parts[-3]}.kernels.{path.stem}" for path in _sources())


def is_warm() -> bool:
    """Whether `warm_up_kernels` has nothing to compile."""
    return _CodeFiles().has(_ALL)


def are_ready(names: Iterable[str]) -> bool:
    """Whether these kernels are loaded already, or were compiled on this machine before."""
    missing = [name for name in names if not native.is_loaded(name)]
    if not missing:
        return True
    files = _CodeFiles()
    return all(map(files.has, missing))


class _CodeFiles:
    """Files with machine code, one per kernel, in a directory for this processor and these sources.

    The directory is named by the contents of the sources, so all installations of the same version share it, whatever
    their Python.
    """

    def __init__(self) -> None:
        cache = cache_directory()
        self._directory = None if cache is None else cache / f"machine-code-{_fingerprint(native.processor())}"

    def has(self, name: str) -> bool:
        """Whether there is a file for this kernel."""
        return self._directory is not None and (self._directory / _file_name(name)).exists()

    def load(self, name: str) -> bytes | None:
        """See CodeStore."""
        try:
            return None if self._directory is None else (self._directory / _file_name(name)).read_bytes()
        except OSError:
            return None

    def save(self, name: str, data: bytes) -> None:
        """See CodeStore. Without room or permission, the next process compiles the kernel again."""
        if self._directory is None:
            return
        path = self._directory / _file_name(name)
        new = path.with_name(f"{path.name}.{os.getpid()}")
        with suppress(OSError):
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            new.write_bytes(data)
            new.rename(path)


def _file_name(kernel: str) -> str:
    return kernel.replace(":", ".")


@cache
def _fingerprint(processor: str) -> str:
    """Return a word for what code depends on: the processor, and the sources of the kernels."""
    import hashlib

    digest = hashlib.blake2b(processor.encode(), digest_size=8)
    for path in _sources():
        digest.update(f"\0{path.name}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _sources() -> list[Path]:
    """Return the paths of the modules of kernels in all layers."""
    from pathlib import Path

    package = Path(__file__).parents[1]
    return sorted(path for layer in ("format", "output") for path in (package / layer / "kernels").glob("[!_]*.py"))


def cache_directory() -> Path | None:
    """Return the directory for compiled code: $NUMBA_CACHE_DIR, or the user's cache. None if neither can be used.

    The user's cache is used only if it belongs to this user and nobody else can write to it: its files are executed.
    A relative path is none: without HOME and without a passwd entry it would be `~` in the working directory. A cache
    in a log directory, such as the home directory of the broker's user, would keep a broker from starting.
    """
    from pathlib import Path  # its import takes a tenth of the time of a small dump

    told = os.environ.get("NUMBA_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111  (never raises)
    directory = Path(told or f"{base}/kafkalog/kernels-{__version__}")
    try:
        if not directory.is_absolute() or any((above / "meta.properties").exists() for above in directory.parents):
            return None
        if told:
            return directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.stat()
    except OSError:
        return None
    is_usable = status.st_uid == os.getuid() and is_trusted(status) and os.access(directory, os.W_OK)
    return directory if is_usable else None


def trusted_cache_directory() -> Path | None:
    """Return the directory for compiled code; None if there is none, or another user can change its files.

    It belongs to this user, or to root where $NUMBA_CACHE_DIR names a directory for all users.
    """
    directory = cache_directory()
    try:
        return directory if directory is not None and is_trusted(directory.stat()) else None
    except OSError:
        return None


def is_trusted(status: os.stat_result) -> bool:
    """Whether a file or directory belongs to this user or to root, and nobody else can write to it."""
    is_writable = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return status.st_uid in (0, os.getuid()) and not is_writable

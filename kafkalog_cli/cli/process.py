"""The process of a command: its standard streams, its encoding, and interruptions that Python would lose."""

import _thread
import gc
import os
import sys
import time

from kafkalog_cli.errors import ExitCode

_STDIN, _STDOUT, _STDERR = range(3)
_INTERRUPT_AGAIN_SECONDS = 0.01
_OBJECTS_PER_COLLECTION = 100_000
"""Python's own 700 make it look for cycles dozens of times while modules are imported: a tenth of a small dump."""


def exit_code(argv: list[str]) -> int:
    """Run the command line of this process; return its exit code."""
    sys.unraisablehook = _keep_interruptions
    _fill_standard_descriptors()
    if sys.stdout is None:
        print("kafkalog: standard output is closed", file=sys.stderr)  # noqa: T201
        return int(ExitCode.FAILURE)
    _start_again_in_utf8()
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # kafkalog has threads of its own, and small arrays
    from kafkalog_cli.cli import app

    code = app.run(argv)
    gc.freeze()  # or Python looks for cycles among all objects once more, a sixth of a small dump
    return code


def _keep_interruptions(lost: "sys.UnraisableHookArgs") -> None:
    """Interrupt again, outside of the callback that lost the exception: a finalizer, or the end of an import."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        _thread.start_new_thread(_interrupt_soon, ())
    else:
        sys.__unraisablehook__(lost)


def _interrupt_soon() -> None:
    """Send the signal once more. An interruption by Python alone would not end a system call that waits."""
    import signal

    time.sleep(_INTERRUPT_AGAIN_SECONDS)
    os.kill(os.getpid(), signal.SIGINT)


def _start_again_in_utf8() -> None:
    """Replace this process by one in Python's UTF-8 mode if the locale has another encoding.

    Paths and arguments are bytes: a path that is printed must name the same file, and keys in arguments are UTF-8.
    Python sets its encoding once, when it starts. Spark's workers inherit the variable.
    """
    if sys.getfilesystemencoding() == "utf-8" or os.environ.get("PYTHONUTF8") == "1" or not sys.executable:
        return
    os.environ["PYTHONUTF8"] = "1"
    os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def _fill_standard_descriptors() -> None:
    """Open the null device where a standard stream is closed: a log opened there would get what is printed."""
    for descriptor in (_STDIN, _STDOUT, _STDERR):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this stream's
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115, PTH123
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123

"""The entry point: answers --version at once, everything else through the command line proper."""

import _thread
import gc
import os
import sys
import time

_STDIN, _STDOUT, _STDERR = range(3)
_OBJECTS_PER_COLLECTION = 100_000
"""Python's own 700 have it look for cycles dozens of times while modules are imported, where there are none. With
NumPy and LLVM that makes some 60,000 objects: looking through them once takes 20 ms, a tenth of the start."""
_INTERRUPT_AGAIN_SECONDS = 0.01


def main() -> None:
    """Run the command line and end the process; the installed command calls this."""
    code = exit_code()
    _end(code)
    sys.exit(code)


def exit_code() -> int:
    """Run the command line of this process."""
    sys.unraisablehook = _keep_interruptions
    try:
        return _run(sys.argv[1:])
    except KeyboardInterrupt:  # while modules were imported
        from kafkalog_cli.errors import ExitCode

        return int(ExitCode.INTERRUPTED)


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


def _end(code: int) -> None:
    """End at once: to take the interpreter down module by module takes a sixth of the time of a small dump."""
    import atexit

    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except OSError:
        return
    os._exit(code)


def _run(argv: list[str]) -> int:
    _fill_standard_descriptors()
    if sys.stdout is None:
        from kafkalog_cli.errors import ExitCode

        print("kafkalog: standard output is closed", file=sys.stderr)  # noqa: T201
        return int(ExitCode.FAILURE)
    if argv == ["--version"] and _answered_version():
        return 0
    _start_again_in_utf8()
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # see load_compiled; NumPy may be imported before the kernels
    from kafkalog_cli.cli.app import run

    return run(argv)


def _start_again_in_utf8() -> None:
    """Replace this process by one in Python's UTF-8 mode if the locale has another encoding.

    Paths and arguments are bytes: a path that is printed must name the same file, and keys in arguments are UTF-8.
    Python sets its encoding once, when it starts. Spark's workers inherit the variable.
    """
    if sys.getfilesystemencoding() == "utf-8" or os.environ.get("PYTHONUTF8") == "1" or not sys.executable:
        return
    os.environ["PYTHONUTF8"] = "1"
    os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def _answered_version() -> bool:
    """Whether the version could be written; if not, the command line proper says why."""
    from kafkalog_cli import __version__

    try:
        os.write(_STDOUT, f"kafkalog {__version__}\n".encode())
    except OSError:
        return False
    return True


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


if __name__ == "__main__":
    sys.exit(exit_code())

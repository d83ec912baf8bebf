"""Ctrl-C, SIGTERM and SIGHUP as requests to stop at the next safe point."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

POLL_SECONDS = 0.1
AGAIN_SECONDS = 1.0
"""A signal repeated within this time counts once: timeout(1) sends it to its child and to the process group."""


class Interruptions:
    """Records Ctrl-C, SIGTERM and SIGHUP as a request to stop (`is_requested`).

    Code at a safe point checks for the request; all other code continues. Nothing is raised in the middle of a change,
    in any thread. A second signal ends the process at once, as a crash would. The files survive that too, but the
    changes that were made are not reported. Threads share this object.
    """

    def __init__(self) -> None:
        self._requested = threading.Event()

    @property
    def is_requested(self) -> bool:
        """Whether the run should end at the next safe point."""
        return self._requested.is_set()

    def request(self) -> None:
        """Request that the run ends at the next safe point."""
        self._requested.set()

    def safe_point(self) -> None:
        """Raise KeyboardInterrupt if a stop was requested; call this only where no change is half done."""
        if self._requested.is_set():
            raise KeyboardInterrupt

    def sleep(self, seconds: float, sleep: Callable[[float], None] = time.sleep) -> None:
        """Sleep, and check for a request to stop every `POLL_SECONDS`. Raises KeyboardInterrupt."""
        while seconds > 0:
            self.safe_point()
            sleep(min(seconds, POLL_SECONDS))
            seconds -= POLL_SECONDS
        self.safe_point()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Record signals as requests to stop inside this context.

        Works only in the main thread, and only for signals whose default handler would end the process.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        defaults: dict[int, object] = dict.fromkeys((signal.SIGTERM, signal.SIGHUP), signal.SIG_DFL)
        defaults[signal.SIGINT] = signal.default_int_handler
        taken = {number: default for number, default in defaults.items() if signal.getsignal(number) is default}

        begun: list[float] = []

        def record(number: int, _frame: FrameType | None) -> None:
            begun.append(time.monotonic())
            self.request()
            if begun[-1] - begun[0] >= AGAIN_SECONDS:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)

        for number in taken:
            signal.signal(number, record)
        try:
            yield
        finally:
            for number, default in taken.items():
                signal.signal(number, default)

"""Signals that would end a writer in the middle of its work: they become a wish, granted when nothing is half done."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

POLL_SECONDS = 0.1
AGAIN_SECONDS = 1.0
"""A second signal within so short a time is the first one: timeout(1) sends each to its child and to the group."""


class Interruptions:
    """Ctrl-C, SIGTERM and SIGHUP as a wish, `are_asked_for`.

    Whoever is at a safe point looks for it, and goes on elsewhere.

    Nothing is raised in the middle of a change, in whichever thread it is made. A second signal ends the process
    at once, as a crash would: that is safe too, but nobody is told what was done. Threads share it.
    """

    def __init__(self) -> None:
        self._asked = threading.Event()

    @property
    def are_asked_for(self) -> bool:
        """Whether the run shall end at the next safe point."""
        return self._asked.is_set()

    def ask(self) -> None:
        """End the run at the next safe point."""
        self._asked.set()

    def safe_point(self) -> None:
        """Nothing is half done here. Raises KeyboardInterrupt if that is waited for."""
        if self._asked.is_set():
            raise KeyboardInterrupt

    def sleep(self, seconds: float, sleep: Callable[[float], None] = time.sleep) -> None:
        """Wait at a safe point. Raises KeyboardInterrupt."""
        while seconds > 0:
            self.safe_point()
            sleep(min(seconds, POLL_SECONDS))
            seconds -= POLL_SECONDS
        self.safe_point()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Signals are taken as a wish in here; only in the main thread, and only where they would end the process."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        defaults: dict[int, object] = dict.fromkeys((signal.SIGTERM, signal.SIGHUP), signal.SIG_DFL)
        defaults[signal.SIGINT] = signal.default_int_handler
        taken = {number: default for number, default in defaults.items() if signal.getsignal(number) is default}

        begun: list[float] = []

        def ask(number: int, _frame: FrameType | None) -> None:
            begun.append(time.monotonic())
            self.ask()
            if begun[-1] - begun[0] >= AGAIN_SECONDS:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)

        for number in taken:
            signal.signal(number, ask)
        try:
            yield
        finally:
            for number, default in taken.items():
                signal.signal(number, default)

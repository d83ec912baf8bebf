"""Planted bugs of those who write: a sync that is left out, two renames (or removals) in the other order."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.watched_fs import Call, WatchedFilesystem

SYNCS = ("sync", "sync_directory")
NAMES = ("rename", "link", "unlink")


class DropSync(WatchedFilesystem):
    """The n-th sync of a file or directory does nothing."""

    kinds = SYNCS

    def __init__(self, below: object, n: int) -> None:
        super().__init__(below)
        self.n = n
        self._syncs = 0

    def perform(self, call: Call, action: Callable[[], object]) -> object:
        if call.name in SYNCS:
            self._syncs += 1
            if self._syncs - 1 == self.n:
                return None
        return super().perform(call, action)


class NoSync(WatchedFilesystem):
    """No sync does anything."""

    def perform(self, call: Call, action: Callable[[], object]) -> object:
        return None if call.name in SYNCS else super().perform(call, action)


class SwapRenames(WatchedFilesystem):
    """The n-th rename is made after the next one."""

    kinds = ("rename",)

    def __init__(self, below: object, n: int) -> None:
        super().__init__(below)
        self.n = n
        self._renames = 0
        self._held: Callable[[], object] | None = None

    def perform(self, call: Call, action: Callable[[], object]) -> object:
        if call.name == "rename":
            self._renames += 1
            if self._renames - 1 == self.n:
                self._held = action
                return None
            if self._held is not None:
                super().perform(call, action)
                held, self._held = self._held, None
                return super().perform(call, held)
        return super().perform(call, action)

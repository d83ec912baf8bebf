"""Counts what is read of a partition's logs, and turns what the operating system says into an error of ours."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from kafkalog_cli.actions.session.work import Work
from kafkalog_cli.errors import KafkalogError, NoSpace, Unreadable

if TYPE_CHECKING:
    from kafkalog_cli.actions.session.session import Session


class Meter:
    """Counts the bytes of one partition's logs that are looked at, and stops it at a read when that is asked for.

    A log that is read once more, to be seen as it will be, is as much work again.
    """

    def __init__(self, work: Work, session: Session) -> None:
        self._work = work
        self._observer = session.observer
        self._interruptions = session.interruptions
        segments = work.partition.segments if session.shared.verb.counts_logs else ()
        self._sizes = {segment.log.path: segment.log.size_bytes for segment in segments}
        self._left = dict(self._sizes)

    def __call__(self, path: str, size_bytes: int) -> None:
        """So many bytes of a file are about to be read or written. Raises KeyboardInterrupt where that may be left."""
        if not self._work.must_finish:
            self._interruptions.safe_point()
        left = self._left.get(path)
        if left is None or not size_bytes:
            return
        if not left:
            left = self._sizes[path]
            self._observer.expect_more(left)
        self._left[path] = left - min(left, size_bytes)
        self._observer.advance(min(left, size_bytes), path)

    def finish(self) -> None:
        """The partition is done with: what was not looked at will not be."""
        self._observer.expect_more(-sum(self._left.values()))
        self._left.clear()


def of_the_system(path: str, error: OSError) -> KafkalogError:
    """What the operating system said of `path`, or of a file that it names."""
    named = error.filename if isinstance(error.filename, str) else path
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        told: KafkalogError = NoSpace(path=named, reason="it could not be written")
    else:
        told = Unreadable(path=named, reason=error.strerror or str(error))
    told.__cause__ = error
    return told

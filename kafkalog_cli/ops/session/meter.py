"""Counts the bytes read from a partition's logs, and translates OSError into KafkalogError."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from kafkalog_cli.errors import KafkalogError, NoSpace, Unreadable
from kafkalog_cli.ops.session.work import Work

if TYPE_CHECKING:
    from kafkalog_cli.ops.session.runner import Runner


class Meter:
    """Counts the bytes read from one partition's logs, and stops the work at a read if a stop was requested.

    A log that is read a second time (to check the result of a change) adds its size to the expected total.
    """

    def __init__(self, work: Work, runner: Runner) -> None:
        self._work = work
        self._observer = runner.observer
        self._interruptions = runner.interruptions
        segments = work.partition.segments if runner.shared.verb.counts_logs else ()
        self._sizes = {segment.log.path: segment.log.size_bytes for segment in segments}
        self._left = dict(self._sizes)

    def __call__(self, path: str, size_bytes: int) -> None:
        """Count `size_bytes` that are about to be read or written at `path`.

        Raises KeyboardInterrupt if a stop was requested and the work may still be abandoned.
        """
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
        """End the count for the partition: log bytes that were not read are taken off the expected total."""
        self._observer.expect_more(-sum(self._left.values()))
        self._left.clear()


def of_the_system(path: str, error: OSError) -> KafkalogError:
    """Translate an OSError about `path`, or about the file that the error names, into NoSpace or Unreadable."""
    named = error.filename if isinstance(error.filename, str) else path
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        told: KafkalogError = NoSpace(path=named, reason="it could not be written")
    else:
        told = Unreadable(path=named, reason=error.strerror or str(error))
    told.__cause__ = error
    return told

"""The library's only warning."""

from __future__ import annotations


class LogWarning(UserWarning):
    """A file beside a log (such as a transaction index) disagrees with the log.

    The records read are still right.

    For an append: a message that `kafkalog append` prints on standard error.
    """

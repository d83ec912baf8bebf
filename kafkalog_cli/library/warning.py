"""The one kind of warning that the library gives."""

from __future__ import annotations


class LogWarning(UserWarning):
    """What lies beside a log (a transaction index, say) is not as the log says; what is read is right all the same.

    Of an append: what its command tells on standard error.
    """

"""The library's only warning."""

import os
import sys
import warnings

_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")  # noqa: PTH118, PTH120  (a name only)


class LogWarning(UserWarning):
    """A file beside a log (such as a transaction index) disagrees with the log.

    The records read are still right.

    For an append: a message that `kafkalog append` prints on standard error.
    """


def warn(message: str, path: str | None) -> None:
    """Warn with LogWarning about `path`, at the line of the program that called the library."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message if path is None else f"{path}: {message}", LogWarning, stacklevel=level)

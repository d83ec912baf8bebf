"""Hide environment variables that configure the packages kafkalog uses: users set them for other programs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_variables(*prefixes: str, keep: frozenset[str] = frozenset()) -> Iterator[None]:
    """Hide the environment variables whose names start with one of `prefixes`, except the variables in `keep`.

    They are restored afterwards. A variable that the block has set meanwhile keeps its new value.
    """
    hidden = {name: os.environ[name] for name in list(os.environ) if name.startswith(prefixes) and name not in keep}
    for name in hidden:
        del os.environ[name]
    try:
        yield
    finally:
        for name, value in hidden.items():
            os.environ.setdefault(name, value)

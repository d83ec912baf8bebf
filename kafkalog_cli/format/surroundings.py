"""Environment variables of the packages that kafkalog uses: they are for programs that use those packages directly."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_variables(*prefixes: str, keep: frozenset[str] = frozenset()) -> Iterator[None]:
    """Hide the environment variables whose names start with one of `prefixes`, but for those to `keep`.

    They are back afterwards, with what the block has set meanwhile left as it is.
    """
    hidden = {name: os.environ[name] for name in list(os.environ) if name.startswith(prefixes) and name not in keep}
    for name in hidden:
        del os.environ[name]
    try:
        yield
    finally:
        for name, value in hidden.items():
            os.environ.setdefault(name, value)

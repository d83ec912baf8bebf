"""Change environment variables for a while: users set variables that configure the packages kafkalog uses."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def restored_variables(*names: str) -> Iterator[None]:
    """Give these environment variables the values that they had before, when the block ends."""
    before = {name: os.environ[name] for name in names if name in os.environ}
    try:
        yield
    finally:
        for name in names:
            os.environ.pop(name, None)
        os.environ.update(before)


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

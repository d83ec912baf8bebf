"""CRC-32C of record batches v2 and of producer snapshots, where Python checks or writes a single one."""

from __future__ import annotations

import importlib.machinery
import importlib.util
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Buffer  # type: ignore[attr-defined, unused-ignore]


def crc32c(data: Buffer, before: int = 0) -> int:
    """Return the CRC-32C (Castagnoli) of `data`, unsigned, after bytes with the CRC `before`."""
    return int(_extension().crc32c(data, before))


@cache
def _extension() -> Any:
    """Load the extension module of the package `crc32c`, which computes without the processor's instruction too.

    The package itself imports importlib.metadata, which costs a third of the start-up of a small dump.
    """
    package = importlib.util.find_spec("crc32c")
    locations = package.submodule_search_locations if package else None
    extension = importlib.machinery.PathFinder.find_spec("_crc32c", locations) if locations else None
    if extension is None or extension.loader is None:
        import crc32c as module

        return module
    found = importlib.util.module_from_spec(extension)
    extension.loader.exec_module(found)
    return found

"""Checksums: CRC-32C of record batches (hardware only) and CRC-32 of the older messages."""

from __future__ import annotations

import importlib.machinery
import importlib.util
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Buffer  # type: ignore[attr-defined, unused-ignore]

    Checksum = Callable[[Buffer], int]


@cache
def crc32c_function() -> Checksum:
    """The CRC-32C of the `crc32c` package, as unsigned 32-bit.

    Raises RuntimeError when the package would fall back to software: ten times slower without a word
    is worse than a message (dpkp/kafka-python#1389). Only the extension module is loaded: the package
    itself imports importlib.metadata, which costs a third of the start-up of a small dump.
    """
    package = importlib.util.find_spec("crc32c")
    locations = package.submodule_search_locations if package else None
    extension = importlib.machinery.PathFinder.find_spec("_crc32c", locations) if locations else None
    if extension is not None and extension.loader is not None:
        module = importlib.util.module_from_spec(extension)
        extension.loader.exec_module(module)
    else:
        import crc32c as module  # type: ignore[no-redef, unused-ignore]
    if not module.hardware_based:
        raise RuntimeError("crc32c has no hardware support on this machine (or CRC32C_SW_MODE forbids it)")
    return cast("Checksum", module.crc32c)


def crc32c(data: Buffer) -> int:
    """CRC-32C (Castagnoli) of `data`, unsigned: record batches v2 and producer snapshots."""
    return crc32c_function()(data)


def crc32(data: Buffer) -> int:
    """CRC-32 (IEEE) of `data`, unsigned: messages of Kafka 0.7, v0 and v1."""
    import zlib

    return zlib.crc32(data)

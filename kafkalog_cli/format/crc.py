"""Checksums: CRC-32C of record batches (hardware only) and CRC-32 of the older messages."""

from __future__ import annotations

import importlib.machinery
import importlib.util
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format.surroundings import without_variables

if TYPE_CHECKING:
    from collections.abc import Buffer  # type: ignore[attr-defined, unused-ignore]

    Checksum = Callable[[Buffer], int]

_PACKAGE_VARIABLES = "CRC32C_"


@cache
def crc32c_function() -> Checksum:
    """The CRC-32C of the `crc32c` package, as unsigned 32-bit.

    Raises KafkalogError when the package would fall back to software: ten times slower without a word
    is worse than a message (dpkp/kafka-python#1389). Only the extension module is loaded: the package
    itself imports importlib.metadata, which costs a third of the start-up of a small dump. CRC32C_SW_MODE,
    by which another program may ask that package for software, does not count here.
    """
    with without_variables(_PACKAGE_VARIABLES):
        module = _loaded()
    if not module.hardware_based:
        raise KafkalogError(
            reason="this processor has no instruction for CRC-32C (SSE 4.2, or the CRC extension of ARMv8),"
            " which kafkalog needs: run it on another machine"
        )
    return cast("Checksum", module.crc32c)


def _loaded() -> Any:
    """The extension module, which looks at the environment once, when it is loaded."""
    package = importlib.util.find_spec("crc32c")
    locations = package.submodule_search_locations if package else None
    extension = importlib.machinery.PathFinder.find_spec("_crc32c", locations) if locations else None
    if extension is not None and extension.loader is not None:
        module = importlib.util.module_from_spec(extension)
        extension.loader.exec_module(module)
    else:
        import crc32c as module  # type: ignore[no-redef, unused-ignore]
    return module


def crc32c(data: Buffer) -> int:
    """CRC-32C (Castagnoli) of `data`, unsigned: record batches v2 and producer snapshots."""
    return crc32c_function()(data)


def crc32(data: Buffer) -> int:
    """CRC-32 (IEEE) of `data`, unsigned: messages of Kafka 0.7, v0 and v1."""
    import zlib

    return zlib.crc32(data)

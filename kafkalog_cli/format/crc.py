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
    """Return the CRC-32C function of the `crc32c` package; its results are unsigned 32-bit integers.

    Raises KafkalogError if the package would fall back to software: an error is better than a silent tenfold slowdown
    (dpkp/kafka-python#1389). Only the extension module is loaded: the package itself imports importlib.metadata, which
    costs a third of the start-up of a small dump. The variable CRC32C_SW_MODE, with which a user can select software
    for other programs, is ignored.
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
    """Load the extension module. It reads the environment once, when it is loaded."""
    package = importlib.util.find_spec("crc32c")
    locations = package.submodule_search_locations if package else None
    extension = importlib.machinery.PathFinder.find_spec("_crc32c", locations) if locations else None
    if extension is not None and extension.loader is not None:
        module = importlib.util.module_from_spec(extension)
        extension.loader.exec_module(module)
    else:
        import crc32c as module  # type: ignore[no-redef, unused-ignore]
    return module


def crc32c(data: Buffer, before: int = 0) -> int:
    """Return the CRC-32C (Castagnoli) of `data`, unsigned. Record batches v2 and producer snapshots use it.

    `before` is the CRC of the bytes before `data`.
    """
    add: Any = crc32c_function()
    return int(add(data, before))


def crc32(data: Buffer) -> int:
    """Return the CRC-32 (IEEE) of `data`, unsigned. Messages of Kafka 0.7, v0 and v1 use it."""
    import zlib

    return zlib.crc32(data)

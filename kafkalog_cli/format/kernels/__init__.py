"""The hot loops: scan (bytes to batch columns) and decode (bytes to record columns).

Each exists as plain Python, which starts at once, and compiled, which pays from some hundred
thousand batches or records on. `storage.scan` chooses. Both pass one contract test.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.format.fault import Fault


class Scanned(NamedTuple):
    """What a scan of one buffer found.

    `consumed_bytes`: how much of the buffer the batches cover. `needed_bytes`: how many bytes from
    there the next step wants to see (0: the scan is over, by the end of the file or by `fault`).
    """

    batches: BatchColumns
    consumed_bytes: int
    needed_bytes: int
    fault: Fault | None

"""dump-log's text from compiled kernels, for batches and blocks in matrices."""

from __future__ import annotations

from collections.abc import Callable

from kafkalog_cli.format.batch import BatchArrays
from kafkalog_cli.format.columns import Integers, Octets
from kafkalog_cli.format.kafka_version import NEWEST, KafkaVersion
from kafkalog_cli.format.kernels import native
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.output.block_lines import Render, WriteBytes, kernel_arguments
from kafkalog_cli.output.kernels import DUMP_BATCHES, DUMP_RECORDS, IS_PLAIN_DUMP

OUT_BYTES = 1 << 20
"""The size of the buffer for batch lines without records."""


class CompiledLogText:
    """The compiled twin of `LogText`, for output that needs no decoder other than the string decoder."""

    def __init__(self, *, contents: bool, skip_metadata: bool, version: KafkaVersion = NEWEST) -> None:
        self._showing = contents, skip_metadata, skip_metadata and not version.is_scala
        self._out: Octets | None = None

    def batches(self, columns: BatchArrays, write: WriteBytes, plain: Callable[[int], bool]) -> None:
        """Write the lines of all batches; `plain` renders one row with the plain twin and returns False to stop."""
        import numpy as np

        if self._out is None:
            self._out = np.empty(OUT_BYTES, dtype=np.uint8)
        row, rows = 0, len(columns)
        while row < rows:
            row, size = native.function(DUMP_BATCHES)(columns.matrix, row, self._out)
            write(self._out.data[:size])
            if row < rows and native.function(IS_PLAIN_DUMP)(columns.matrix, row):
                if not plain(row):
                    return
                row += 1

    @staticmethod
    def at_once(out: Octets) -> None:
        """Return None: no kernel decodes and renders in one step."""
        del out

    def render(self, block: RecordBlock) -> Render:
        """Return the function that renders lines of the block's batches and records."""
        arguments, kernel = kernel_arguments(block), native.function(DUMP_RECORDS)

        def render(state: Integers, out: Octets) -> int:
            size: int = kernel(*arguments, *self._showing, state, out)
            return size

        return render

"""dump-log's text by the compiled kernels, for batches and blocks that come as matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.format.kernels import native
from kafkalog_cli.format.records import RecordBlock

RENDER_BATCHES = "kafkalog_cli.output.kernels.dump:render_batches"
RENDER_RECORDS = "kafkalog_cli.output.kernels.dump:render_records"
IS_PLAIN_CASE = "kafkalog_cli.output.kernels.dump:is_plain_case"

OUT_BYTES = 1 << 20

WriteBytes = Callable[[memoryview], None]


class CompiledLogText:
    """Renders into one reused buffer; the twin of `LogText` for what needs no decoder but the string one."""

    def __init__(self, *, contents: bool, skip_metadata: bool) -> None:
        self._contents = contents
        self._skip_metadata = skip_metadata
        self._out: Any = None

    def batches(self, columns: BatchColumns, write: WriteBytes, plain: Callable[[int], bool]) -> None:
        """Lines of all batches; `plain` renders one row by the plain twin, False ends the rendering."""
        self._allocate()
        row, rows = 0, len(columns)
        while row < rows:
            row, size = native.function(RENDER_BATCHES)(columns.matrix, row, self._out)
            write(memoryview(self._out)[:size])
            if row < rows and native.function(IS_PLAIN_CASE)(columns.matrix, row):
                if not plain(row):
                    return
                row += 1

    def _allocate(self) -> None:
        import numpy as np

        if self._out is None:
            self._out = np.empty(OUT_BYTES, dtype=np.uint8)

    def block(self, block: RecordBlock, write: WriteBytes) -> None:
        """Lines of a block's batches and records."""
        import numpy as np

        self._allocate()
        buffer = np.frombuffer(block.buffer, dtype=np.uint8)
        batches = block.batches.matrix[:, block.first_row : block.end_row]
        state = np.zeros(4, dtype=np.int64)
        while state[0] < batches.shape[1]:
            size = native.function(RENDER_RECORDS)(
                buffer,
                batches,
                block.record_ends,
                block.records.matrix,
                self._contents,
                self._skip_metadata,
                state,
                self._out,
            )
            write(memoryview(self._out)[:size])
            if state[3] > len(self._out):
                self._out = np.empty(int(state[3]) * 5 // 4, dtype=np.uint8)


def warm_up() -> None:
    """Compile (or load from the cache) the kernels of this module: importing them does it."""
    from kafkalog_cli.output.kernels import dump

    assert dump.render_records.signatures

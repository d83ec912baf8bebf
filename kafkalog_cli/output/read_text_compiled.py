"""Records as kafka-console-consumer prints them, from compiled kernels, for blocks in matrices."""

from __future__ import annotations

from kafkalog_cli.format.columns import Integers, Octets
from kafkalog_cli.format.kernels import native
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.output.block_lines import Render
from kafkalog_cli.output.read_text import FIELDS

RENDER_RECORDS = "kafkalog_cli.output.kernels.read_text:render_records"


class CompiledReadText:
    """The compiled twin of `ReadText`, for output without escapes."""

    def __init__(self, fields: frozenset[str], partition: int) -> None:
        # The partition's entry is its number plus two: -1 is a directory without a number.
        self._numbers = [int(name in fields) * (partition + 2 if name == "partition" else 1) for name in FIELDS]

    @staticmethod
    def at_once(out: Octets) -> None:
        """Return None: no kernel decodes and renders in one step."""
        del out

    def render(self, block: RecordBlock) -> Render:
        """Return the function that renders the lines of the block's records."""
        import numpy as np

        buffer = np.frombuffer(block.buffer, dtype=np.uint8)
        batches = block.batches.arrays().matrix[:, block.first_row : block.end_row]
        records, ends = block.records.arrays().matrix, block.record_ends
        fields = np.array(self._numbers, dtype=np.int64)
        kernel = native.function(RENDER_RECORDS)

        def render(state: Integers, out: Octets) -> int:
            size: int = kernel(buffer, batches, ends, records, fields, state, out)
            return size

        return render

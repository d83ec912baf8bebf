"""Blocks of records: with flush.messages one ends with its last record, not with the next one that comes."""

import json

import pytest

from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.ops.append.batching import BatchStyle, blocks
from kafkalog_cli.ops.append.columns import NdjsonReader


@pytest.mark.parametrize("kernels", [KernelChoice(forced=False), KernelChoice(forced=True)], ids=["plain", "compiled"])
@pytest.mark.parametrize("most", [1, 2, 5])
def test_a_block_is_there_as_soon_as_its_records_are(kernels, most):
    """A record a piece, as from somebody who types."""
    asked = []

    def pieces():
        for number in range(20):
            asked.append(number)
            yield json.dumps({"value": str(number)}).encode() + b"\n"

    records = NdjsonReader(kernels, 5).records(pieces(), "it")
    seen = [len(asked) for _ in blocks(records, BatchStyle(), 5, most_records=most)]
    assert seen == list(range(most, 21, most))

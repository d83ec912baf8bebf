"""`read --merge-by-time` holds a batch of each partition: of many, or of large batches, in bounded memory."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.damage.makers import GZIP, MEBIBYTE, START_MS, batch, record
from tests.damage.peaks import BOMBS, peaks
from tests.support.product import ExitCode

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is in KiB on Linux"),
    pytest.mark.exhaustive,
]

MOST_MEBIBYTES = 300
LOG = f"{0:020}.log"


@pytest.fixture(autouse=True)
def counted(evidence):
    evidence("R9", 1, BOMBS)


def merged(log_dir: Path, logs: list[bytes], *options: str) -> tuple[int, int]:
    """Exit code and peak memory of a merge of partitions with these logs."""
    for number, log in enumerate(logs):
        (log_dir / f"t-{number}").mkdir(parents=True)
        (log_dir / f"t-{number}" / LOG).write_bytes(log)
    (found,) = peaks([("read", str(log_dir), "--topic", "t", "--merge-by-time", *options)])
    return found


def log_of(records: int, value_bytes: int, codec: int = 0) -> bytes:
    values = [record(at, b"k", bytes(value_bytes), ms=at * 1000) for at in range(records)]
    return batch(0, values, codec=codec, base_ms=START_MS)


def test_a_merge_by_time_of_500_partitions_stays_within_the_memory_limit(tmp_path):
    code, mebibytes = merged(tmp_path, [log_of(8, 8 << 10, GZIP)] * 500)
    assert code == 0
    assert mebibytes < MOST_MEBIBYTES, mebibytes


@pytest.mark.parametrize(
    ("count", "value_mebibytes", "options", "expected"),
    [
        (12, 40, (), ExitCode.FAILURE),
        (3, 50, (), ExitCode.FAILURE),
        (3, 50, ("--max-output-bytes", str(256 * MEBIBYTE)), ExitCode.OK),
        (2, 50, (), ExitCode.OK),
    ],
)
def test_a_merge_by_time_of_large_batches_stays_within_the_memory_limit_or_is_refused(
    count, value_mebibytes, options, expected, tmp_path
):
    code, mebibytes = merged(tmp_path, [log_of(1, value_mebibytes * MEBIBYTE, GZIP)] * count, *options)
    assert code == expected
    assert mebibytes < MOST_MEBIBYTES, mebibytes

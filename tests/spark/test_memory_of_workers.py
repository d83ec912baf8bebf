"""What the tasks of Spark need for large values: at most 300 MiB beyond Python, or the value is refused by a limit."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.damage.makers import MEBIBYTE
from tests.spark.exporting import pa, pq
from tests.support.logs import R, batch_v2

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is in KiB on Linux")

MOST_MEBIBYTES = 300
TEXT = b"".join(b"%d some text that packs " % number for number in range(4000))
ROW_GROUP_ROWS = 400
OF_PARTITION = {"kafkalog.partition": "0"}
PARTS = 10


def work(name, source, target):
    """(peak in MiB, what it said)."""
    script = Path(__file__).parent / "memory_of_work.py"
    done = subprocess.run(
        [sys.executable, str(script), name, str(source), str(target)],
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said, peak = done.stdout.strip().rsplit("\n", 1)
    return int(peak), said


def value_of(mebibytes):
    return (TEXT * (mebibytes * MEBIBYTE // len(TEXT) + 1))[: mebibytes * MEBIBYTE]


def log(folder, mebibytes, codec):
    (folder / "t-0").mkdir(parents=True)
    records = [R(at, 7, b"k", value_of(size)) for at, size in enumerate(mebibytes)]
    (folder / "t-0" / f"{0:020}.log").write_bytes(batch_v2(records, codec))
    return folder


@pytest.mark.exhaustive
@pytest.mark.parametrize("codec", [0, 1], ids=["none", "gzip"])
@pytest.mark.parametrize("name", ["read", "to_arrow", "to_parquet"])
def test_a_worker_that_reads_a_value_of_110_mebibytes_stays_within_the_memory_limit(tmp_path, name, codec, evidence):
    peak, said = work(name, log(tmp_path / "logs", [110], codec), tmp_path / "out")
    assert said == "1"
    assert peak < (180 if name != "to_parquet" else MOST_MEBIBYTES), peak  # to_parquet: in an Arrow file beside
    evidence("R51", 1, PARTS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["to_parquet", "read"])
def test_a_worker_that_reads_a_batch_of_110_mebibytes_stays_within_the_memory_limit(tmp_path, name, evidence):
    peak, said = work(name, log(tmp_path / "logs", [16, 15, 16, 15, 16, 15, 15], 1), tmp_path / "out")
    assert said == "7"
    assert peak < MOST_MEBIBYTES, peak
    evidence("R51", 1, PARTS)


@pytest.mark.exhaustive
def test_an_import_of_large_values_stays_within_the_memory_limit(tmp_path, evidence):
    values = pa.table({"value": pa.array([value_of(size) for size in (16, 15, 16, 15)])}, metadata=OF_PARTITION)
    pq.write_table(values, tmp_path / "x.parquet")
    peak, said = work("from_files", tmp_path / "x.parquet", tmp_path / "logs")
    assert said == "4"
    assert peak < MOST_MEBIBYTES, peak
    evidence("R51", 1, PARTS)


@pytest.mark.exhaustive
def test_an_import_of_a_large_row_group_stays_within_the_memory_limit(tmp_path, evidence):
    """As programs that do not limit row groups write them. Arrow would read all of a column at once."""
    values = [b"%d" % row + value_of(1) for row in range(ROW_GROUP_ROWS)]
    with pq.ParquetWriter(
        tmp_path / "x.parquet", pa.schema([("value", pa.binary())], OF_PARTITION), compression="none", use_dictionary=False,
        write_batch_size=4,
    ) as out:  # fmt: skip
        out.write_table(pa.table({"value": pa.array(values)}, metadata=OF_PARTITION), row_group_size=ROW_GROUP_ROWS)
    peak, said = work("from_files", tmp_path / "x.parquet", tmp_path / "logs")
    assert said == str(ROW_GROUP_ROWS)
    assert peak < MOST_MEBIBYTES, peak
    evidence("R51", 1, PARTS)

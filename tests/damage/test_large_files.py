"""Writers beside files of 512 MiB and partitions of millions of producers: each in bounded memory."""

from __future__ import annotations

import sys

import pytest

from tests.damage.large_files import ENTRIES, FIRST, SECOND, WRITERS, command, partition, snapshot, sparse
from tests.damage.makers import MEBIBYTE
from tests.damage.peaks import LARGE_FILE_RUNS, peaks
from tests.support.product import KafkalogError, Refused

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is in KiB on Linux"),
    pytest.mark.exhaustive,
]

MOST_MEBIBYTES = 300
LARGE = 512 * MEBIBYTE
MOST_PRODUCERS = 2_000_000


@pytest.fixture(autouse=True)
def counted(evidence):
    evidence("R9b", 1, LARGE_FILE_RUNS)


@pytest.mark.parametrize("suffix", ENTRIES)
@pytest.mark.parametrize("segment", [FIRST, SECOND])
@pytest.mark.parametrize("name", WRITERS)
def test_writers_beside_huge_indexes_stay_within_the_memory_limit(name, segment, suffix, tmp_path):
    """Each works, or refuses and changes nothing. The file has an entry at its end, so that all of it seems in use."""
    (tmp_path / "in.ndjson").write_text('{"value":"v"}\n')
    path = partition(tmp_path / "logs" / "t-0")
    entry = ENTRIES[suffix]
    sparse(path / f"{segment}{suffix}", LARGE // len(entry) * len(entry), end=entry)
    before = {found.name: found.stat().st_size for found in path.iterdir() if found.is_file()}
    ((code, mebibytes),) = peaks([command(name, path)])
    assert mebibytes < MOST_MEBIBYTES, mebibytes
    if code not in (0, 3):
        assert code in (KafkalogError.exit_code, Refused.exit_code)
        assert {found.name: found.stat().st_size for found in path.iterdir() if found.is_file()} == before
    if name.startswith("recover") and "--like-broker" not in name:
        assert code == 0
        assert (path / f"{segment}{suffix}").stat().st_size < 1000 if (path / f"{segment}{suffix}").exists() else True


@pytest.mark.full
@pytest.mark.parametrize("name", ["append", "truncate", "compact"])
def test_writers_take_a_state_of_as_many_producers_as_the_limit(name, tmp_path):
    """2,000,000 of them, as a broker takes them; the state at the end has them all."""
    (tmp_path / "in.ndjson").write_text('{"value":"v"}\n')
    path = partition(tmp_path / "logs" / "t-0")
    (path / f"{SECOND}.snapshot").write_bytes(snapshot(MOST_PRODUCERS))
    ((code, mebibytes),) = peaks([command(name, path)])
    assert code == 0
    assert mebibytes < MOST_MEBIBYTES, mebibytes
    if name == "append":
        assert (path / f"{41:020}.snapshot").stat().st_size == 10 + 46 * MOST_PRODUCERS


@pytest.mark.full
def test_truncate_refuses_a_state_of_more_producers_than_the_limit(tmp_path):
    path = partition(tmp_path / "logs" / "t-0")
    (path / f"{SECOND}.snapshot").write_bytes(snapshot(MOST_PRODUCERS + 2))
    ((code, mebibytes),) = peaks([command("truncate", path)])
    assert code == Refused.exit_code
    assert mebibytes < MOST_MEBIBYTES, mebibytes
    assert not (path / ".kafkalog").exists()

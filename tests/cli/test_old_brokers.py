"""Log directories that old brokers left after a clean stop are sound: `verify` exits with 0 at every level.

tests/fixtures/format_switches.tar.xz has what Kafka 0.10.2.2, 0.11.0.3, 2.0.1 and 4.2.0 left: changes of
log.message.format.version, transactions with markers after the last data, a replica moved to another log directory.
"""

import json

import pytest

from tests.support.archives import FIXTURES, unpack
from tests.support.commands import kafkalog
from tests.support.logs import R, batch_v2, indexes, message, write_segment

LEVELS = ("quick", "normal", "deep")
CASES = ("z0102", "z0110", "z201", "moved")


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    target = tmp_path_factory.mktemp("old")
    unpack(FIXTURES / "format_switches.tar.xz", target)
    return target / "corpus"


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("case", CASES)
def test_a_clean_stop_of_an_old_broker_is_sound(old, case, level):
    code, out, err = kafkalog("verify", old / case, "--level", level)
    assert (code, err) == (0, ""), out


def test_a_replica_that_was_moved_is_not_called_a_deleted_topic(old):
    [directory] = (old / "moved").glob("*-delete")
    _, out, _ = kafkalog("verify", directory)
    assert "the replica moved to another log directory" in out


def of_08(folder):
    """What 0.8 and 0.9 have: messages of format 0, no time index, no leader epochs."""
    (folder / "t-0").mkdir(parents=True)
    data = b"".join(message(R(offset, -1, None, b"v"), 0) for offset in range(3))
    (folder / "t-0" / "00000000000000000000.log").write_bytes(data)
    (folder / "t-0" / "00000000000000000000.index").write_bytes(indexes([(data, 2, -1)], 0)[0])
    for name in ("recovery-point", "replication"):
        (folder / f"{name}-offset-checkpoint").write_text("0\n1\nt 0 3\n")
    (folder / ".kafka_cleanshutdown").write_text("")
    return folder


def kinds(folder):
    found = [json.loads(line) for line in kafkalog("verify", folder, "--format", "json")[1].splitlines()]
    return {one["kind"] for one in found if one["type"] == "finding"}


def test_a_directory_of_08_has_no_meta_properties(tmp_path):
    folder = of_08(tmp_path / "data")
    assert "meta-properties-missing" not in kinds(folder)
    (folder / "t-0" / "leader-epoch-checkpoint").write_text("0\n0\n")
    assert "meta-properties-missing" in kinds(folder)


def test_the_log_starts_where_deleted_records_end(tmp_path):
    (tmp_path / "t-0").mkdir()
    records = [R(offset, 1_795_000_000_000 + offset, None, b"v") for offset in range(5)]
    write_segment(tmp_path / "t-0", 0, [(batch_v2(records), 4, records[-1].timestamp)])
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 3\n")
    lines = kafkalog("verify", tmp_path / "t-0", "--format", "json")[1].splitlines()
    [found] = [one for one in map(json.loads, lines) if "log_start_offset" in one]
    assert (found["log_start_offset"], found["log_end_offset"]) == (3, 5)
    assert "offsets 3 to 5" in kafkalog("verify", tmp_path / "t-0")[1]


def test_no_epochs_are_missing_where_a_broker_writes_an_old_format_again(tmp_path):
    """With log.message.format.version below 0.11 a broker removes leader-epoch-checkpoint (seen of 2.4.1)."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    new, old = R(0, 1_795_000_000_000, None, b"v"), R(1, 1_795_000_000_001, None, b"v")
    batches = [(batch_v2([new], epoch=3), 0, new.timestamp), (message(old, 1), 1, old.timestamp)]
    write_segment(folder, 0, batches)
    assert "leader-epochs-missing" not in kinds(folder)
    write_segment(folder, 0, batches[:1])
    assert "leader-epochs-missing" in kinds(folder)

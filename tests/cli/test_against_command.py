"""`kafkalog verify --against` as a command: backups under other names, log directories, and what was not compared."""

import json
import shutil

import pytest

from tests.support.commands import kafkalog


def verify(*argv):
    return kafkalog("verify", "--level", "quick", *argv)


def findings(*argv):
    code, out, _ = verify(*argv, "--format", "json")
    return code, [line for line in map(json.loads, out.splitlines()) if line["type"] == "finding"]


def kinds(*argv):
    code, found = findings(*argv)
    return code, [line["kind"] for line in found]


@pytest.fixture
def sides(corpus, tmp_path):
    """Two log directories with orders-0, orders-1 and payments-0 each."""
    source = corpus / "crash-asis" / "before" / "crash-asis-0"
    for side in "ab":
        (tmp_path / side).mkdir()
        for name in ("orders-0", "orders-1", "payments-0"):
            shutil.copytree(source, tmp_path / side / name, ignore=shutil.ignore_patterns("partition.metadata"))
    return tmp_path / "a", tmp_path / "b"


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["orders-0.bak", "backup", "orders-0-2026-11-22.old", "orders-0"])
def test_a_backup_under_another_name(sides, tmp_path, name):
    backup = tmp_path / "elsewhere" / name
    shutil.copytree(sides[0] / "orders-0", backup)
    assert kinds(sides[0] / "orders-0", "--against", backup) == (0, ["more-complete"])
    assert kinds(sides[0], "--topic", "orders", "--partition", 0, "--against", backup) == (0, ["more-complete"])
    log = sorted((sides[0] / "orders-0").glob("*.log"))[1]
    for file in log.parent.glob(f"{log.stem}.*"):
        file.unlink()
    code, found = findings(sides[0] / "orders-0", "--against", backup)
    assert code == 4
    assert [line["severity"] for line in found if line["kind"] == "records-missing"] == ["corruption"]
    assert verify(sides[0] / "orders-0", "--against", backup, "--config", "cleanup.policy=compact")[0] == 0


def test_different_partitions_are_not_compared(sides):
    code, out, _ = verify(sides[0] / "orders-0", "--against", sides[1] / "orders-1")
    assert code == 5
    assert "not compared: orders-0 and orders-1 are different partitions [not-compared]" in out
    code, found = findings(sides[0] / "orders-0", "--against", sides[1] / "payments-0")
    assert code == 5
    assert [line["message"] for line in found] == ["not compared: orders-0 and payments-0 are different partitions"]


def test_a_replica_that_is_not_there_is_said(sides):
    shutil.rmtree(sides[1] / "orders-1")
    code, out, _ = verify(sides[0] / "orders-1", "--against", sides[1])
    assert code == 5
    assert f"not compared: orders-1 is only here, there is none in {sides[1]} [not-compared]" in out


def test_two_log_directories_are_compared_partition_by_partition(sides):
    code, out, _ = verify(sides[0], "--against", sides[1], "--verbose")
    assert code == 0
    assert out.count("compared, the replicas agree") == 3
    assert "\n6 partitions: 6 OK; 3 comparisons: 3 OK, " in out
    shutil.rmtree(sides[1] / "orders-1")
    shutil.move(sides[0] / "payments-0", sides[0] / "refunds-0")
    code, found = findings(sides[0], "--against", sides[1])
    assert code == 3
    alone = [(line["path"], line["message"]) for line in found if line["kind"] == "only-on-one-side"]
    assert alone == [
        (str(sides[0] / "orders-1"), f"not compared: orders-1 is only here, there is none in {sides[1]}"),
        (str(sides[0] / "refunds-0"), f"not compared: refunds-0 is only here, there is none in {sides[1]}"),
        (str(sides[1] / "payments-0"), f"not compared: payments-0 is only here, there is none in {sides[0]}"),
    ]
    assert [line["topic"] for line in found if line["kind"] == "more-complete"] == ["orders"]


def test_log_directories_with_nothing_in_common(sides, tmp_path):
    other = tmp_path / "c"
    other.mkdir()
    shutil.copytree(sides[0] / "orders-0", other / "stocks-0")
    code, found = kinds(sides[0], "--against", other)
    assert code == 5
    assert found == ["not-compared"] * 4


def test_a_log_directory_against_itself_was_not_compared(sides):
    code, found = kinds(sides[0] / "orders-0", "--against", sides[0])
    assert (code, found) == (5, ["not-compared"])
    (sides[0].parent / "link").symlink_to(sides[0])
    assert kinds(sides[0], "--against", sides[0].parent / "link")[0] == 5


def test_a_damaged_replica_is_compared_and_said_to_be_damaged(sides):
    last = sorted((sides[1] / "orders-0").glob("*.log"))[-1]
    last.write_bytes(last.read_bytes()[:-5])
    code, found = kinds(sides[0], "--against", sides[1])
    assert code == 3
    assert {"torn-tail", "replica-behind", "more-complete"} <= set(found)


def test_settings_as_for_writers(sides, tmp_path):
    log = sorted((sides[0] / "orders-0").glob("*.log"))[1]
    log.unlink()
    path = sides[0] / "orders-0"
    properties = tmp_path / "server.properties"
    for policy, expected in (("compact", False), ("delete", True)):
        properties.write_text(f"node.id=1\nlog.cleanup.policy={policy}\n")
        assert ("missing-offsets" in kinds(path, "--broker-config", properties)[1]) is expected
        assert ("missing-offsets" in kinds(path, "--config", f"cleanup.policy={policy}")[1]) is expected
    assert verify(path, "--config", "cleanup.policy=keep")[0] == 2
    assert verify(path, "--broker-config", tmp_path / "none")[0] == 10

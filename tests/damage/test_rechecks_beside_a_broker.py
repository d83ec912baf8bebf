"""What seems wrong beside a running broker is looked at again: work in progress is no finding, damage stays one."""

import io
import shutil
from pathlib import Path

import pytest

from tests.support.commands import a_broker_on
from tests.support.product import Environment, run

EXAMPLE = Path(__file__).parents[2] / "docs/example"


@pytest.fixture
def log_dir(tmp_path):
    shutil.copytree(EXAMPLE, tmp_path / "data")
    return tmp_path / "data"


def code_of(command, path, sleep):
    environment = Environment(stdout=io.BytesIO(), stderr=io.BytesIO(), sleep=sleep)
    return run([command, str(path)], environment)


@pytest.mark.parametrize("command", ["verify", "dump-index"])
def test_a_log_that_reaches_the_entries_of_its_index_in_the_next_look(command, log_dir):
    partition = log_dir / "mixed-0"
    log = max(partition.glob("*.log"))
    whole = log.read_bytes()
    before = code_of(command, partition, lambda _: None)
    entries = max(partition.glob("*.timeindex"))
    assert entries.stat().st_size
    log.write_bytes(b"")
    assert code_of(command, partition, lambda _: None) == 4
    waits = []

    def appended(seconds):
        waits.append(seconds)
        log.write_bytes(whole)

    with a_broker_on(log_dir):
        assert code_of(command, partition, appended) == before
    assert waits


@pytest.mark.parametrize("command", ["verify", "dump-index"])
def test_damage_beside_a_running_broker_is_a_finding(command, log_dir):
    partition = log_dir / "mixed-0"
    log = max(partition.glob("*.log"))
    log.write_bytes(b"")
    waits = []
    with a_broker_on(log_dir):
        assert code_of(command, partition, waits.append) == 4
    assert len(waits) == 3


def test_the_preallocated_end_of_a_log_beside_a_running_broker(log_dir):
    """With preallocate=true the last segment has its full size from its beginning: it ends with zeros."""
    log = max((log_dir / "mixed-0").glob("*.log"))
    log.write_bytes(log.read_bytes() + bytes(100_000))
    with a_broker_on(log_dir):
        assert code_of("verify", log_dir, lambda _: None) == 0
        log.write_bytes(log.read_bytes()[:-100_000] + b"x" * 100_000)
        assert code_of("verify", log_dir, lambda _: None) == 3
    log.write_bytes(log.read_bytes()[:-100_000] + bytes(100_000))
    assert code_of("verify", log_dir, lambda _: None) == 3

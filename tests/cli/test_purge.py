"""`kafkalog purge` of files that a broker named .deleted; tests/transcripts/undo.md has what it does with runs."""

import shutil
from pathlib import Path

import pytest

from tests.support.commands import kafkalog

EXAMPLE = Path(__file__).parents[2] / "docs" / "example" / "mixed-0"
LOG, DELETED = f"{0:020d}.log", f"{0:020d}.log.deleted"


@pytest.fixture
def partition(tmp_path):
    return shutil.copytree(EXAMPLE, tmp_path / "t-0")


def renamed_ms(partition):
    """The time at which a broker gave the log its new name."""
    (partition / LOG).rename(partition / DELETED)
    return (partition / DELETED).stat().st_ctime_ns // 1_000_000


def test_a_file_that_a_broker_deleted_is_unlinked_60_seconds_after_its_ctime(partition):
    since_ms = renamed_ms(partition)
    assert kafkalog("purge", partition, "--now", since_ms + 59_999).code == 0
    assert (partition / DELETED).exists()
    assert kafkalog("purge", partition, "--now", since_ms + 60_000).code == 0
    assert not (partition / DELETED).exists()


def test_a_name_that_a_broker_gave_after_the_undo_of_a_run_is_not_that_of_the_run(partition):
    code, out, _ = kafkalog("retain", partition, "--config", "retention.ms=1")
    assert (code, (partition / DELETED).exists()) == (0, True)
    assert kafkalog("undo", partition, out.split()[-1]).code == 0
    assert kafkalog("purge", partition, "--now", renamed_ms(partition) + 1).code == 0
    assert (partition / DELETED).exists()

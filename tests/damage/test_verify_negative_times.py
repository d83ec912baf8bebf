"""Timestamps below zero as a real broker stores them: its header says -1, and the base timestamp has the time."""

import shutil
import struct

import crc32c
import pytest

from tests.support.archives import FIXTURES
from tests.support.commands import json_of
from tests.support.logs import R, batch_v2

LOG = f"{0:020}.log"


@pytest.fixture
def partition(tmp_path):
    """Offset 0 has a time of 2023, 1 to 3 have -62135596800000, -1 and -2, and 4 has 0: a 4.2.0 broker wrote them."""
    folder = tmp_path / "neg-0"
    folder.mkdir()
    shutil.copy(FIXTURES / "negative-times.log", folder / LOG)
    return folder


def findings(partition, level):
    _, lines, _ = json_of("verify", partition / LOG, "--level", level)
    return [line for line in lines if line["type"] == "finding"]


@pytest.mark.parametrize("level", ["normal", "deep"])
def test_a_brokers_own_negative_times_are_one_finding_about_the_batches(partition, level):
    (found,) = findings(partition, level)
    assert [found["kind"], found["position"]] == ["negative-timestamp", 83]
    assert [found["first_offset"], found["last_offset"]] == [1, 3]
    assert "2 batches" in found["message"]
    assert "-62135596800000" in found["message"]


def test_a_header_without_a_maximum_over_times_after_1970_stays_a_finding(partition):
    """No broker writes that: its maximum would be the time of the record."""
    log = partition / LOG
    data = bytearray(log.read_bytes())
    struct.pack_into(">q", data, 35, -1)  # the largest timestamp of the first batch, of 2023
    struct.pack_into(">I", data, 17, crc32c.crc32c(bytes(data[21:83])))
    log.write_bytes(data)
    assert "max-timestamp" in [one["kind"] for one in findings(partition, "deep")]


def test_a_batch_that_begins_with_a_negative_time_is_found_without_reading_its_records(partition):
    """Its largest timestamp is one of 2023, so that only the base timestamp shows the other."""
    (partition / LOG).write_bytes(batch_v2([R(5, -7, b"k", b"v"), R(6, 1_700_000_000_000, b"k", b"v")]))
    (found,) = [one for one in findings(partition, "normal") if one["kind"] == "negative-timestamp"]
    assert "the first is -7" in found["message"]

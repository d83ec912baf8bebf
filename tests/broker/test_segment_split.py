"""A segment whose offsets its indexes cannot express is split alike, however many batches are looked at at a time."""

import struct

import pytest

from kafkalog_cli.broker import log_loader
from kafkalog_cli.broker.load_error import LoadFailed
from kafkalog_cli.broker.loaded_segment import LoadedSegment, LoadSettings
from kafkalog_cli.broker.log_loader import split_segment
from kafkalog_cli.change.draft import Draft
from tests.support.faulty_fs import FaultyFilesystem
from tests.support.logs import R, batch_v2

BEYOND = 1 << 31
LOG = f"{0:020}.log"


def batch(offset, timestamp):
    return batch_v2([R(offset, timestamp)])


def split(log, settings=None):
    """The files after the split by name, or the reason why it failed."""
    draft = Draft(FaultyFilesystem({f"/t-0/{LOG}": log}), "/t-0")
    settings = settings or LoadSettings(now_ms=0, index_interval_bytes=100)
    try:
        split_segment(LoadedSegment(draft, 0, settings, is_new=True), draft, settings, keep_old=True)
    except LoadFailed as failure:
        return str(failure)
    return {name: b"".join(draft.content(name).pieces()) for name in draft.names()}


@pytest.mark.parametrize("group", [1, 2, 3, 7, 4096])
def test_the_parts_and_their_indexes(group, monkeypatch):
    monkeypatch.setattr(log_loader, "_GROUP_BATCHES", group)
    offsets = [*range(12), *range(BEYOND, BEYOND + 5), *range(3 * BEYOND, 3 * BEYOND + 2)]
    log = b"".join(batch(offset, 1000 + row) for row, offset in enumerate(offsets))
    size = len(batch(0, 0))
    files = split(log)
    assert {name: len(data) for name, data in files.items() if name.endswith(".log")} == {
        f"{0:020}.log": 12 * size,
        f"{BEYOND:020}.log": 5 * size,
        f"{3 * BEYOND:020}.log": 2 * size,
    }
    assert files[f"{0:020}.log.deleted"] == log
    entries = [(row, row * size) for row in range(2, 12, 2)]
    assert files[f"{0:020}.index"] == b"".join(struct.pack(">ii", *entry) for entry in entries)
    assert files[f"{3 * BEYOND:020}.index"] == b""
    assert files[f"{3 * BEYOND:020}.timeindex"] == struct.pack(">qi", 1018, 1)


@pytest.mark.parametrize("group", [1, 2, 4096])
def test_what_a_broker_cannot_split(group, monkeypatch):
    monkeypatch.setattr(log_loader, "_GROUP_BATCHES", group)
    assert "only permitted for segments with overflow" in split(batch(0, 1))
    odd = bytearray(batch(1, 1))
    odd[16] = 3  # the magic
    assert "Invalid magic found in record: 3" in split(batch(0, 1) + odd + batch(BEYOND, 2))
    assert "CorruptRecordException" in split(batch(0, 1) + batch(BEYOND, 2) + batch(BEYOND + 1, 3)[:-1])

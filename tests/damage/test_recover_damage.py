"""A log cut, filled with zeros or with a zeroed header, as `recover` leaves it: the good prefix, or all of it as it was.

What may be cut, a brute force over the CRCs says; what lies behind damage, `--salvage` finds.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.crash.writers import kafkalog
from tests.damage.makers import LOGS, SmallLog
from tests.damage.test_verify_truncation import HEADER_BYTES, brute_force, entry_at
from tests.damage.verifying import bad, beside, verified
from tests.support.effort import DIAL
from tests.support.memory_fs import MemoryFilesystem
from tests.support.product import ExitCode

SINCE_EIGHT = [log for log in LOGS if not log.is_v07]
FOLDER, OUT = "/log/t-0", "/out"
STEP = 1 if DIAL.effort == "night" else 83
"""Bytes between places; a night tries each."""
MARKER = 3
"""The entry with the transaction's end: without it the producer's next batch, which has none, is not allowed."""
PARTS = 3 * len(SINCE_EIGHT)
"""Tests that share row R8 here; those of test_verify_truncation.py have a row of their own."""

ids = {"ids": lambda log: log.name}


def disk(log: SmallLog, data: bytes) -> MemoryFilesystem:
    fs = MemoryFilesystem()
    for name, content in {**beside(log), log.file_name: data}.items():
        fs.add(f"{FOLDER}/{name}", content)
    return fs


def files(fs: MemoryFilesystem, folder: str = FOLDER) -> dict[str, bytes]:
    found = {path.removeprefix(f"{folder}/"): facts[0] for path, facts in fs.tree(folder).items()}
    return {name: data for name, data in found.items() if data is not None and not name.startswith(".kafkalog")}


def good_bytes(data: bytes) -> int:
    at = 0
    while (end := entry_at(data, at)) is not None:
        at = end
    return at


def check_recovered(log: SmallLog, data: bytes, where: object) -> None:
    """The good prefix and nothing else where the rest is a tail; a partition with more behind it stays as it is."""
    fs = disk(log, data)
    before = files(fs)
    outcome = kafkalog(fs, "recover", FOLDER)
    after = files(fs)
    if brute_force(log, data) is ExitCode.CORRUPTION:
        assert (outcome.code, after) == (ExitCode.REFUSED, before), where
        return
    assert outcome.code == ExitCode.OK, (where, outcome)
    assert after[log.file_name] == data[: good_bytes(data)], where
    assert bad(verified(after, "normal")) == set(), where
    assert "nothing to do" in kafkalog(fs, "recover", FOLDER, token="0002").out, where


def places(log: SmallLog) -> list[int]:
    return sorted({*range(0, len(log.data), STEP), *log.starts})


@pytest.mark.exhaustive
@pytest.mark.parametrize("log", SINCE_EIGHT, **ids)
def test_recover_of_a_log_cut_at_any_byte_keeps_the_whole_batches_before_it(log, evidence):
    for cut in places(log):
        check_recovered(log, log.data[:cut], cut)
    evidence("R8", len(places(log)), PARTS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("log", SINCE_EIGHT, **ids)
def test_recover_of_a_log_with_zeros_from_any_byte_on_keeps_the_whole_batches_before_it(log, evidence):
    for cut in places(log):
        check_recovered(log, log.data[:cut] + bytes(len(log.data) - cut), cut)
    evidence("R8", len(places(log)), PARTS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("log", SINCE_EIGHT, **ids)
def test_recover_cuts_at_a_zeroed_header_and_salvage_keeps_the_batches_after_it(log, evidence):
    for entry, (start, end) in enumerate(pairwise(log.starts)):
        size = min(HEADER_BYTES, end - start)
        data = log.data[:start] + bytes(size) + log.data[start + size :]
        check_recovered(log, data, entry)
        fs = disk(log, data)
        outcome = kafkalog(fs, "recover", "--salvage", OUT, FOLDER)
        assert files(fs)[log.file_name] == data
        if log.name.startswith("v2") and entry == MARKER:
            assert "a broker would not start with what was salvaged: InvalidTxnStateException" in outcome.err
            continue
        assert outcome.code == brute_force(log, data), (entry, outcome)
        salvaged = files(fs, f"{OUT}/t-0")[log.file_name]
        assert salvaged.startswith(log.data[:start]), entry
        assert salvaged.endswith(log.data[end:]), entry
        between = salvaged[start : len(salvaged) - (len(log.data) - end)]
        assert between in log.data[start:end], entry
        assert between == b"" or log.name == "v0-snappy"  # it did not compress: its messages can be read
    evidence("R8", 2 * (len(log.starts) - 1), PARTS)

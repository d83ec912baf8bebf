"""Every truncation of a small log, zeros from every byte on, and a zeroed header in mid-log."""

from __future__ import annotations

import pytest

from tests.damage.makers import LOGS
from tests.damage.reading import Fact, deadline, read
from tests.support.effort import DIAL

ids = {"ids": lambda log: log.name}
HEADER_BYTES_UP_TO_MAGIC = 17
SINCE_EIGHT = [log for log in LOGS if not log.is_seven]


def entries_before(log, position):
    return sum(end <= position for end in log.starts[1:])


@pytest.mark.exhaustive
@pytest.mark.parametrize("log", LOGS, **ids)
def test_every_truncation_leaves_the_whole_entries(log):
    whole = read(log.data, seven=log.is_seven)
    with deadline(60):
        for cut in DIAL.some(range(len(log.data))):
            outcome = read(log.data[:cut], seven=log.is_seven)
            entries = entries_before(log, cut)
            end = log.starts[entries]
            assert outcome.batches == whole.batches[:entries]
            assert outcome.records == [record for record in whole.records if record.batch_position < end]
            assert outcome.record_faults == []
            assert outcome.chain_fault == (Fact("trailing-bytes", end) if cut > end else None)
            assert outcome.valid_bytes == end


@pytest.mark.exhaustive
@pytest.mark.parametrize("log", LOGS, **ids)
def test_zeros_from_every_byte_on_leave_the_entries_before(log):
    whole = read(log.data, seven=log.is_seven)
    with deadline(60):
        for cut in DIAL.some(range(len(log.data))):
            outcome = read(log.data[:cut] + bytes(len(log.data) - cut), seven=log.is_seven)
            entries = entries_before(log, cut)
            assert outcome.batches[:entries] == whole.batches[:entries]
            assert not outcome.is_clean or not any(log.data[cut:]), cut


@pytest.mark.parametrize("log", SINCE_EIGHT, **ids)
def test_a_zeroed_header_ends_the_chain_where_it_stands(log):
    for entry, start in enumerate(log.starts[:-1]):
        data = bytearray(log.data)
        data[start : start + HEADER_BYTES_UP_TO_MAGIC] = bytes(HEADER_BYTES_UP_TO_MAGIC)
        outcome = read(bytes(data))
        assert len(outcome.batches) == entry
        assert outcome.chain_fault == Fact("size-too-small", start)

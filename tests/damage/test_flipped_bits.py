"""Every flipped bit of a small log of every generation and codec: seen, or on the list of bits that no CRC covers."""

from __future__ import annotations

import resource
from collections.abc import Iterable

import pytest

from tests.damage.makers import LOGS, SmallLog
from tests.damage.reading import Outcome, deadline, read
from tests.support.effort import DIAL

ALL_BITS = range(8)
UNSEEN: dict[str, dict[range, Iterable[int]]] = {
    # Base offset, leader epoch and magic. Where records begin and which leader wrote them the CRC leaves out, so that a
    # broker can set it. Above magic 2 all is read as v2; bit 1 makes a message v0 of it and bit 7 a negative number,
    # which both are seen.
    "v2": {range(8): ALL_BITS, range(12, 16): ALL_BITS, range(16, 17): (0, 2, 3, 4, 5, 6)},
    "v0": {range(8): ALL_BITS},
    "v1": {range(8): ALL_BITS},
    # The CRC of 0.7 covers the payload only. Bits 0 and 1 of the attributes are the codec: that a compressed set is
    # taken for plain bytes is not seen, that another codec does not read it is. No code reads the other bits.
    "seven": {range(5, 6): ALL_BITS},
}
"""Bits of an entry that can change with no reader of this one file seeing it: bytes, bits of each of them.

The other fields that no CRC covers are not here: a length moves the end of the bytes that are summed up, and the
CRC itself is compared.
"""

ids = {"ids": lambda log: log.name}


def unseen_bits(unseen: dict[str, dict[range, Iterable[int]]], kind: str) -> set[tuple[int, int]]:
    """(byte of an entry, bit) of a list like the one above."""
    return {(byte, bit) for places, bits in unseen[kind].items() for byte in places for bit in bits}


def kind_of(log: SmallLog) -> str:
    return log.name.partition("-")[0]


def place(log: SmallLog, bit: int) -> tuple[int, int]:
    position = bit >> 3
    return position - log.starts[log.entry_of(position)], bit & 7


def records_before(log: SmallLog, whole: Outcome) -> list[int]:
    """How many records come before each entry."""
    return [sum(record.batch_position < start for record in whole.records) for start in log.starts]


@pytest.mark.parametrize("log", LOGS, **ids)
def test_the_undamaged_log_is_clean(log):
    outcome = read(log.data, seven=log.is_seven)
    assert outcome.is_clean
    assert [batch.position for batch in outcome.batches] == list(log.starts[:-1])
    assert outcome.valid_bytes == len(log.data) >= 2048
    assert log.name.partition("-")[2] in {batch.codec for batch in outcome.batches}


@pytest.mark.full
@pytest.mark.parametrize("log", LOGS, **ids)
def test_every_bit_is_seen_or_on_the_list(log):
    whole = read(log.data, seven=log.is_seven)
    unseen, records = set(), records_before(log, whole)
    memory_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with deadline(120):
        for bit in DIAL.some(range(8 * len(log.data))):
            outcome = read(log.flipped(bit), seven=log.is_seven)
            entry = log.entry_of(bit >> 3)
            assert outcome.batches[:entry] == whole.batches[:entry], bit
            assert outcome.records[: records[entry]] == whole.records[: records[entry]], bit
            if outcome.is_clean:
                unseen.add(place(log, bit))
    assert unseen <= unseen_bits(UNSEEN, kind_of(log))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory_before < 64 << 10  # KiB


@pytest.mark.parametrize("kind", UNSEEN)
def test_the_list_has_no_bit_that_is_always_seen(kind):
    logs = [log for log in LOGS if log.name.startswith(kind)]
    unseen = set()
    for log in logs:
        for start in log.starts[:-1]:
            for byte, bit in unseen_bits(UNSEEN, kind) - unseen:
                if (
                    start + byte < len(log.data)
                    and read(log.flipped(8 * (start + byte) + bit), seven=log.is_seven).is_clean
                ):
                    unseen.add((byte, bit))
    assert unseen == unseen_bits(UNSEEN, kind)

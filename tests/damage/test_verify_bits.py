"""Every flipped bit of a small log of every generation and codec, as `verify` sees it: a finding, or on the list."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from tests.damage.makers import LOGS, RECORD_BATCH_BYTES, SmallLog
from tests.damage.reading import deadline
from tests.damage.verifying import Told, bad, beside, verified
from tests.support.effort import DIAL

ALL_BITS = range(8)
UNSEEN: dict[str, dict[range, Iterable[int]]] = {
    # What no CRC covers is found by what lies beside: base offsets by the index, by their order and by the offsets of
    # the records, leader epochs by their checkpoint, magics because none is above 2.
    "v2": {},
    "v1": {},
    "v0": {},
    # Nothing lies beside a log of 0.7, and its CRC covers the payload only. Bits 0 and 1 of the attributes are the
    # codec: that a compressed set is taken for plain bytes is not seen. No code reads the other bits.
    "seven": {range(5, 6): ALL_BITS},
}
"""Bits of an entry that can change with no check finding it: bytes, bits of each of them."""

EIGHTHS = range(8)
PARTS = len(EIGHTHS) * len(LOGS) + 8
"""Tests that share row R7: one per eighth of a log, and one per file beside a log (test_verify_sidecar_bits.py)."""

HEADER_BYTES = {"v2": RECORD_BATCH_BYTES, "v1": 34, "v0": 26, "seven": 10}
ids = {"ids": lambda log: log.name}


def unseen_bits(kind: str) -> set[tuple[int, int]]:
    """(byte of an entry, bit) of the list above."""
    return {(byte, bit) for places, bits in UNSEEN[kind].items() for byte in places for bit in bits}


def kind_of(log: SmallLog) -> str:
    return log.name.partition("-")[0]


def place(log: SmallLog, bit: int) -> tuple[int, int]:
    position = bit >> 3
    return position - log.starts[log.entry_of(position)], bit & 7


class Tried:
    """Verifies one log again and again, with other bytes."""

    def __init__(self, log: SmallLog, level: str = "deep") -> None:
        self.log, self.level = log, level
        self.beside = beside(log)
        self.before = self.findings(log.data)

    def findings(self, data: bytes) -> set[Told]:
        return bad(verified({**self.beside, self.log.file_name: data}, self.level))

    def is_seen(self, bit: int) -> bool:
        return bool(self.findings(self.log.flipped(bit)) - self.before)


def unseen_of(log: SmallLog, bits: Iterable[int]) -> set[tuple[int, int]]:
    tried = Tried(log)
    with deadline(400):
        return {place(log, bit) for bit in bits if not tried.is_seen(bit)}


@pytest.mark.parametrize("log", LOGS, **ids)
def test_the_undamaged_log_has_no_damage(log):
    assert {told.kind for told in Tried(log).before} <= {"max-timestamp"}  # its headers say 7 ms more than its records
    assert {told.kind for told in Tried(log, "normal").before} == set()


@pytest.mark.exhaustive
@pytest.mark.parametrize("log", LOGS, **ids)
def test_verify_finds_one_flipped_bit_in_every_sixteenth_byte_or_it_is_listed(log):
    rng = random.Random(log.name)
    bits = [8 * byte + rng.randrange(8) for byte in range(rng.randrange(16), len(log.data), 16)]
    assert unseen_of(log, DIAL.some(bits)) <= unseen_bits(kind_of(log))


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("eighth", EIGHTHS)
@pytest.mark.parametrize("log", LOGS, **ids)
def test_verify_finds_every_flipped_bit_of_a_log_or_it_is_listed(log, eighth, evidence):
    bits = DIAL.some(range(eighth, 8 * len(log.data), len(EIGHTHS)))
    assert unseen_of(log, bits) <= unseen_bits(kind_of(log))
    evidence("R7", len(bits), PARTS)


@pytest.mark.parametrize("kind", [kind for kind in UNSEEN if unseen_bits(kind)])
def test_verify_misses_each_listed_bit_in_some_log(kind):
    unseen = set()
    for log in LOGS:
        if kind_of(log) == kind:
            bits = [8 * (start + byte) + bit for start in log.starts[:-1] for byte, bit in unseen_bits(kind)]
            unseen |= unseen_of(log, (bit for bit in bits if bit < 8 * len(log.data)))
    assert unseen >= unseen_bits(kind)


@pytest.mark.parametrize("log", LOGS, **ids)
def test_verify_at_level_normal_finds_every_flipped_bit_that_a_crc_covers(log):
    """Without a look into the records; a bit of a header that no CRC covers may need one."""
    rng = random.Random(log.name + "normal")
    tried = Tried(log, "normal")
    size = HEADER_BYTES[kind_of(log)]
    bodies = [b for begin, end in zip(log.starts, log.starts[1:], strict=False) for b in range(begin + size, end)]
    for byte in rng.sample(bodies, 20):
        assert tried.is_seen(8 * byte + rng.randrange(8)), byte

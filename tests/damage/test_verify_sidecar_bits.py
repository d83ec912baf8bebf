"""Every flipped bit of each file beside a log, as `verify` sees it: a finding, or on the list of what can be anything."""

from __future__ import annotations

import pytest

from tests.crash.log_directories import PARTITION, log_directory
from tests.crash.writers import RECOVER
from tests.damage.test_verify_bits import PARTS
from tests.damage.verifying import bad, verified
from tests.support.effort import DIAL
from tests.support.memory_fs import MemoryFilesystem

FIRST, SECOND, END = (f"{offset:020d}" for offset in (0, 6, 10))
TEXT_BITS = range(7)

UNSEEN: dict[str, dict] = {
    # An entry may name any offset of its batch: brokers of 2.0 to 4.0 took the last one of an append.
    f"{FIRST}.index": {3: [0]},
    f"{FIRST}.timeindex": {},
    f"{SECOND}.timeindex": {11: [0]},
    f"{FIRST}.txnindex": {},
    f"{SECOND}.snapshot": {},
    f"{END}.snapshot": {},
    # An epoch may begin behind the log's first offset, where that was deleted. Java takes other white space.
    "leader-epoch-checkpoint": {6: [0, 1, 2, 3], 7: [0]},
    # The names of the two fields nobody reads, any version from 0 on is taken, and the topic id may be any where no
    # metadata log knows it.
    "partition.metadata": {9: range(4), **dict.fromkeys((*range(7), *range(11, 19), *range(21, 43)), TEXT_BITS)},
}
"""Of each file the bits that can change with no check finding it, by byte."""


@pytest.fixture(scope="module")
def files():
    """A partition with transactions of which one was aborted, as recover leaves it."""
    fs = log_directory("transactions")
    assert RECOVER.act(fs).code == 0
    return contents(fs)


def contents(fs: MemoryFilesystem) -> dict[str, bytes]:
    found = {path.removeprefix(f"{PARTITION}/"): inode for path, inode in fs.walk(PARTITION)}
    return {name: inode.content for name, inode in found.items() if "/" not in name and not inode.is_directory}


def flipped(data: bytes, bit: int) -> bytes:
    damaged = bytearray(data)
    damaged[bit >> 3] ^= 1 << (bit & 7)
    return bytes(damaged)


def test_every_kind_of_file_beside_a_log_is_tried(files):
    assert {name for name, data in files.items() if data and not name.endswith(".log")} == set(UNSEEN)
    assert bad(verified(files, "deep")) == set()


@pytest.mark.parametrize("name", UNSEEN)
def test_verify_finds_every_flipped_bit_of_a_file_beside_the_log_or_it_is_listed(files, name, evidence):
    listed = {8 * byte + bit for byte, bits in UNSEEN[name].items() for bit in bits}
    bits = DIAL.some(range(8 * len(files[name])))
    unseen = {bit for bit in bits if not bad(verified({**files, name: flipped(files[name], bit)}))}
    assert unseen - listed == set()
    assert name == "partition.metadata" or listed & {*bits} == unseen  # some ids are none, and some names have a colon
    evidence("R7", len(bits), PARTS)

"""A chain of batches breaks where a plain walk over the whole bytes finds a size that is too small."""

import random
import struct

import pytest

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.ops.look.dump_indexes import BatchChain
from tests.support.logs import BASE_TIME_MS, R, batch_v2, message


def naive(data, position):
    """The position of the first size below 14 from `position` on, None if there is none (FileLogInputStream)."""
    while position < len(data) - 17:
        [size] = struct.unpack_from(">i", data, position + 8)
        if size < 14:
            return position
        if position > len(data) - 12 - size:
            return None
        position += 12 + size
    return None


def random_log(chance):
    made = []
    for at in range(chance.randrange(1, 60)):
        value = chance.randbytes(chance.choice([0, 5, 200, 70_000 if chance.random() < 0.1 else 9]))
        record = R(at, BASE_TIME_MS, b"k", value)
        made.append(batch_v2([record]) if chance.random() < 0.7 else message(record, chance.randrange(2)))
    return made


def spoil(data, starts, chance):
    for _ in range(chance.randrange(3)):
        at = chance.choice(starts)
        kind = chance.randrange(4)
        if kind == 0:
            struct.pack_into(">i", data, at + 8, chance.choice([0, 13, -1, 14, 40, 2**31 - 1]))
        elif kind == 1:
            data[at + 16] = chance.choice([0x80, 0xFF, 0, 1, 2, 9])
        elif kind == 2:
            del data[at + chance.randrange(61) :]
            return
        else:
            data += bytes(chance.choice([1, 16, 17, 18, 30]))


@pytest.mark.parametrize("seed", range(40))
def test_the_same_break_as_a_naive_walk(tmp_path, seed):
    chance = random.Random(seed)
    parts = random_log(chance)
    starts = [sum(map(len, parts[:at])) for at in range(len(parts))]
    data = bytearray(b"".join(parts))
    spoil(data, starts, chance)
    (tmp_path / "x.log").write_bytes(data)
    asked = [at for at in starts if at <= len(data)] * 2 + [chance.randrange(len(data) + 1) for _ in range(9)]
    if seed % 2:
        chance.shuffle(asked)
    with RealFilesystem().open_read(str(tmp_path / "x.log")) as file:
        chain = BatchChain(file)
        for position in asked:
            fault = chain.fault_from(position)
            assert (None if fault is None else fault.position) == naive(data, position)

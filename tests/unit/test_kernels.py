"""One contract for both kernels: the same columns, records and faults, whatever the bytes."""

import random

import pytest

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.log.reading.read import RecordReader
from kafkalog_cli.log.reading.scan import Scan
from tests.support.logs import BASE_TIME_MS, R, batch_v2, message, message_set

FS = RealFilesystem()


def everything(path, forced):
    """Batches, records and faults of a file, as plain values."""
    batches, records, faults = [], [], []
    with FS.open_read(str(path)) as file:
        scan = Scan(file)
        scan._is_large = forced
        reader = RecordReader()
        for chunk in scan:
            batches += chunk.batches.rows()
            for block in reader.blocks(chunk):
                records += block.rows()
                faults += [fault._replace(message="") for fault in block.faults.values()]
        return batches, records, faults, scan.fault, scan.valid_bytes


def many_batches(chance, count):
    offset = 0
    for _ in range(count):
        made = [
            R(
                offset + i,
                BASE_TIME_MS + i,
                b"k%d" % i if i % 3 else None,
                chance.randbytes(20),
                ((b"h", None),) * (i % 2),
            )
            for i in range(chance.randrange(1, 8))
        ]
        codec = chance.choice([0, 0, 0, 1, 2, 3, 4])
        kind = chance.randrange(12)
        if kind == 0:
            yield message_set(made, 1, 1)
        elif kind == 1:
            yield b"".join(message(r, 0) for r in made)
        elif kind == 2:
            yield batch_v2([], 0, offset, offset + 2, (9, 0, 4))
        else:
            yield batch_v2(
                made, codec, bits=chance.choice([0, 8, 0x10]), producer=chance.choice([(-1, -1, -1), (9, 0, 2**31 - 3)])
            )
        offset += 9


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_plain_and_compiled_agree(tmp_path, seed):
    chance = random.Random(seed)
    data = bytearray(b"".join(many_batches(chance, 60)))
    for _ in range(seed % 4):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(data)
    plain, compiled = everything(path, False), everything(path, True)
    assert plain == compiled
    assert plain[0]


@pytest.mark.slow
def test_batches_that_cross_the_borders_of_chunks(tmp_path):
    chance = random.Random(5)
    path = tmp_path / "00000000000000000000.log"
    made = [
        batch_v2([R(i, BASE_TIME_MS, None, chance.randbytes(size))])
        for i, size in enumerate([3 << 20, 10, 100_000, 130_000] * 3)
    ]
    path.write_bytes(b"".join(made))
    plain, compiled = everything(path, False), everything(path, True)
    assert plain == compiled
    assert [batch.size_bytes for batch in plain[0]] == [len(data) for data in made]
    assert all(batch.valid for batch in plain[0])

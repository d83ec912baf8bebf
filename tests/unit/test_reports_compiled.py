"""Reports on indexes, snapshots and epochs by whole columns are those that are made batch by batch."""

import random

import pytest

from kafkalog_cli.ops.checks.index_reports import PartitionReports
from kafkalog_cli.ops.checks.segment_reports import ReadContext
from tests.support.logs import (
    BASE_TIME_MS,
    TRANSACTIONAL,
    R,
    aborted_txns,
    batch_v2,
    end_marker,
    producer_snapshot,
    write_segment,
)
from tests.support.product import KernelChoice, RealFilesystem

COUNT = 3000


def batches(rng):
    """Data of producers in and out of transactions, markers, gaps, leader epochs, timestamps that go back."""
    made, offset, epoch, open_of = [], rng.choice([0, 5]), 0, {}
    for number in range(COUNT):
        epoch += rng.random() < 0.002
        offset += rng.choice([0] * 40 + [1, 7])
        producer = rng.choice([-1, -1, 1, 2, 3])
        time = BASE_TIME_MS + number * 10 + rng.choice([0, 0, 0, -500, 900])
        if producer in open_of and rng.random() < 0.3:
            del open_of[producer]
            data, last = end_marker(offset, time, (producer, 0), rng.randint(0, 1)), offset
        else:
            count = rng.choice([1, 1, 1, 3])
            records = [R(offset + i, time, None, b"v") for i in range(count)]
            in_txn = producer == 3 or producer in open_of
            if in_txn:
                open_of[producer] = offset
            sequence = (producer, 0, number) if producer > 0 else (-1, -1, -1)
            data = batch_v2(records, producer=sequence, epoch=epoch, bits=TRANSACTIONAL * in_txn)
            last = offset + count - 1
        made.append((data, last, time))
        offset = last + 1
    return made


def damaged(rng, data, size):
    """Some entries of an index, or bytes of a log, changed."""
    data = bytearray(data)
    for _ in range(rng.choice([0, 0, 1, 3])):
        at = rng.randrange(max(1, len(data) // size)) * size
        kind = rng.randrange(4)
        if kind == 0:
            data[at + rng.randrange(size)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at : at + size] = data[at - size : at] if at else data[at : at + size]
        elif kind == 2:
            del data[at : at + size]
        else:
            data[at : at + size] = bytes(size)
    return bytes(data)


def write(folder, rng):
    made = batches(rng)
    edge = rng.randrange(1000, 2000)
    parts = {0: made[:edge], made[edge - 1][1] + 1: made[edge:]}
    for base, part in parts.items():
        write_segment(folder, base, part, rng.choice([0, 300, 4096]))
        for suffix, size in ((".index", 8), (".timeindex", 12)):
            path = folder / f"{base:020}{suffix}"
            path.write_bytes(damaged(rng, path.read_bytes(), size))
        log = folder / f"{base:020}.log"
        if rng.random() < 0.3:
            log.write_bytes(damaged(rng, log.read_bytes(), 70))
    end = made[-1][1] + 1
    for offset in {edge, end // 2, end}:
        entries = [
            (p, 0, rng.randrange(COUNT), rng.randrange(end), 0, BASE_TIME_MS, 0, rng.choice([-1, edge]))
            for p in (1, 2, 3)
        ]
        (folder / f"{offset:020}.snapshot").write_bytes(producer_snapshot(entries))
    lasts = sorted(rng.sample(range(end), 3))
    (folder / f"{0:020}.txnindex").write_bytes(aborted_txns([(3, last - 5, last, last + 1) for last in lasts]))
    epochs = "".join(f"{epoch} {epoch * 300}\n" for epoch in range(4))
    (folder / "leader-epoch-checkpoint").write_text(f"0\n4\n{epochs}")


def reports(folder, compiled):
    read_context = ReadContext(RealFilesystem(), choice=KernelChoice(forced=compiled))
    return [
        (
            r.path,
            r.size_bytes,
            r.notes,
            dict(r.counts),
            dict(r.style_counts),
            r.zero_tail_bytes,
            r.worst_entry,
            list(r.entries),
        )
        for r in PartitionReports(read_context, str(folder))
    ]


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(12))
def test_both_tell_the_same(tmp_path, seed):
    pytest.importorskip("numba")
    folder = tmp_path / "topic-0"
    folder.mkdir()
    write(folder, random.Random(seed))
    plain, compiled = reports(folder, False), reports(folder, True)
    assert plain == compiled
    assert len(plain) >= 8

"""Record columns to bytes: as the naive encoder, and what is written is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.format.batch import Batch, BatchColumns
from kafkalog_cli.format.batch_encoder import BatchEncoder, WantedBatches, encode_end_marker
from kafkalog_cli.format.compression import compress, decompress
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.log.reading.records import RecordReader
from kafkalog_cli.log.reading.scan import Scan
from tests.support.faulty_fs import BytesFile
from tests.support.logs import BASE_TIME_MS, COMPRESS, LOG_APPEND_TIME, R, batch_v2, end_marker, lz4_frame_of_old
from tests.support.naive_reader import read_batches, read_records
from tests.support.strategies import batches_v2, logs, producers, records, timestamps

V2 = (batches_v2,)
NOBODY = Batch(0, 0, 0, 0, -1, 2, 0, 0, -1, -1, -1, -1, -1, 0, 1)


def blocks(data):
    """(block, chunk) of a log in memory, while the block lives."""
    reader = RecordReader()
    for chunk in Scan(BytesFile(data)):
        yield from reader.blocks(chunk)


def columns_of(block, change=None):
    """The header columns of a block's batches."""
    rows = [batch if change is None else change(batch) for batch in block.batches.rows(block.first_row, block.end_row)]
    return BatchColumns.from_rows(rows)


def encoded(data, change=None, keep=None):
    """All batches of a log, decoded and encoded again: the bytes, and the columns that came with them."""
    out, found, begun = b"", [], 0
    encoder = BatchEncoder()
    for block in blocks(data):
        ends = [int(end) for end in block.record_ends]
        flags = None if keep is None else keep[begun : begun + ends[-1]]
        begun += ends[-1]
        wanted = WantedBatches(columns_of(block, change), [0, *ends[:-1]], ends, flags)
        made = encoder.encode(block.buffer, block.records, wanted, len(out))
        out += bytes(made.data)
        found += made.batches.rows()
    return out, found


def batch_tuples(data):
    return [tuple(batch) for batch in read_batches(data)]


@given(log=logs(V2))
def test_batches_that_were_read_and_encoded_are_read_again_alike(log):
    again, columns = encoded(log.data)
    assert [tuple(batch) for batch in columns] == batch_tuples(again)
    assert all(batch.valid for batch in read_batches(again))
    was, now = ([list(read_records(data, b)) for b in read_batches(data)] for data in (log.data, again))
    assert was == now
    for before, after in zip(read_batches(log.data), read_batches(again), strict=True):
        same = ("base_offset", "last_offset", "leader_epoch", "producer_id", "producer_epoch", "base_sequence")
        assert [getattr(before, name) for name in same] == [getattr(after, name) for name in same]
        assert after.records_count == before.records_count


@given(
    made=st.lists(records(7), min_size=1, max_size=4),
    producer=producers,
    epoch=st.integers(-1, 9),
    horizon=st.none() | st.integers(BASE_TIME_MS, BASE_TIME_MS + 10**10),
    append_time=st.booleans(),
    data=st.data(),
)
def test_batches_are_encoded_as_by_the_naive_encoder(made, producer, epoch, horizon, append_time, data):
    """Also with records left out, and with all of one batch left out."""
    bits = LOG_APPEND_TIME if append_time else 0
    if append_time:  # every record has the time of the batch then
        made = [[r._replace(timestamp=BASE_TIME_MS + 5) for r in part] for part in made]
    log = b"".join(batch_v2(part, producer=producer, epoch=epoch, bits=bits, horizon=horizon) for part in made)
    assert encoded(log)[0] == log
    keep = data.draw(st.lists(st.integers(0, 1), min_size=sum(map(len, made)), max_size=sum(map(len, made))))
    naive, at = b"", 0
    for part in made:
        kept = [r for r, flag in zip(part, keep[at : at + len(part)], strict=True) if flag]
        at += len(part)
        largest = max((r.timestamp for r in kept or part), default=-1)
        span = {"base": part[0].offset, "last": part[-1].offset, "max_timestamp": largest}
        naive += batch_v2(kept, producer=producer, epoch=epoch, bits=bits, horizon=horizon if kept else None, **span)
    assert encoded(log, keep=keep)[0] == naive


def test_batches_larger_than_the_room_that_is_there():
    made = [
        R(at, BASE_TIME_MS + at, b"k" * 300, b"v" * 70_000, ((b"h" * 200, None), (b"", b"x" * 900))) for at in range(9)
    ]
    log = b"".join(batch_v2(made[at : at + 3]) for at in range(0, 9, 3))
    assert encoded(log)[0] == log


@pytest.mark.exhaustive
@pytest.mark.parametrize("codec", range(5))
def test_a_large_batch_comes_in_parts(codec):
    made = [R(at, BASE_TIME_MS + at * 7, b"%d" % at, b"value") for at in range(70_000)]
    log = batch_v2(made, codec, producer=(5, 1, 9))
    encoder, bodies, header = BatchEncoder(), [], None
    for block in blocks(log):
        batch = block.batches.row(block.first_row)
        base = None if header is None else header.base_timestamp
        part, body = encoder.body(block.buffer, block.records, batch, base_timestamp=base)
        header = batch._replace(base_timestamp=part.base_timestamp)
        bodies.append(body)
    assert len(bodies) == 3
    again = bytes(encoder.finish(header, bodies).data)
    if codec == 0:
        assert again == log
        return
    (batch,) = read_batches(again)
    assert list(read_records(again, batch)) == list(read_records(log, next(iter(read_batches(log)))))


@given(
    offset=st.integers(0, 1 << 60),
    timestamp=timestamps,
    commits=st.booleans(),
    epochs=st.tuples(st.integers(0, 99), st.integers(0, 9)),
)
def test_end_markers_are_encoded_as_by_the_naive_encoder(offset, timestamp, commits, epochs):
    coordinator, leader = epochs
    header = NOBODY._replace(base_offset=offset, producer_id=77, producer_epoch=3, leader_epoch=leader)
    batch, data = encode_end_marker(int(commits), coordinator, timestamp, header)
    naive = bytearray(end_marker(offset, timestamp, (77, 3), commits, coordinator))
    naive[12:16] = leader.to_bytes(4, "big")
    assert data == naive
    assert [tuple(batch)] == batch_tuples(data)


def test_lz4_frames_of_magic_0_have_the_wrong_checksum_of_kafka_3160():
    """Of magic 0 and lz4, as KAFKA-3160 has it."""
    data = b"x" * 100
    assert compress(3, data, magic=0) == lz4_frame_of_old(data)
    assert compress(3, data, magic=1) == COMPRESS[3](data)
    assert decompress(3, compress(3, data, magic=0), magic=0, limits=Limits()) == data

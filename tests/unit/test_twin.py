"""Our reading of a segment against that of the naive twin, on logs made here and on those of real brokers."""

import pytest
from hypothesis import given

from kafkalog_cli.log.reading.records import RecordReader
from kafkalog_cli.log.reading.scan import Scan
from tests.support.faulty_fs import BytesFile
from tests.support.naive_reader import NaiveBatch, NaiveRecord, read_batches, read_records
from tests.support.strategies import Wanted, logs


def read(data):
    """Batches, the records of each whose CRC holds, and where the chain of batches ended."""
    batches, records = [], []
    scan = Scan(BytesFile(data))
    reader = RecordReader()
    for chunk in scan:
        batches += [NaiveBatch(*batch) for batch in chunk.batches.rows()]
        for block in reader.blocks(chunk):
            rows, begin = list(block.rows()), 0
            for row, end in enumerate(block.record_ends, block.first_row):
                if block.batches.valid[row]:
                    assert row not in block.faults
                    records.append([NaiveRecord(*record[:-1]) for record in rows[begin : int(end)]])
                begin = int(end)
    return batches, records, scan.end_position


def read_naively(data):
    batches = list(read_batches(data))
    end = batches[-1].position + batches[-1].size_bytes if batches else 0
    return batches, [list(read_records(data, batch)) for batch in batches if batch.valid], end


@given(log=logs())
def test_logs_are_read_as_they_were_made(log):
    batches, records, valid_bytes = read(log.data)
    assert valid_bytes == len(log.data)
    assert all(batch.valid for batch in batches)
    assert all(record.valid for part in records for record in part)
    assert [[Wanted(*record[:6]) for record in part] for part in records] == log.batches
    assert (batches, records, valid_bytes) == read_naively(log.data)


def segments(folder):
    """Every file in the format of segments, once: also snapshots, and what the cleaner or a deletion left."""
    found = {}
    for path in sorted(folder.rglob("*.log*")) + sorted(folder.rglob("*.checkpoint")):
        if path.name[0].isdigit():
            found.setdefault(path.read_bytes(), path)
    return {path: data for data, path in found.items()}


@pytest.mark.exhaustive
def test_logs_of_real_brokers(corpus):
    tried, seen = 0, set()
    for path, data in segments(corpus).items():
        ours = batches, records, _ = read(data)
        assert ours == read_naively(data), path
        tried += sum(map(len, records))
        seen |= {(batch.magic, batch.attributes & 7, batch.valid) for batch in batches}
    assert tried > 20_000
    assert seen >= {(2, codec, 1) for codec in range(5)} | {(2, 0, 0), (2, 4, 0)}
    assert seen >= {(magic, codec, 1) for magic in (0, 1) for codec in range(4)}

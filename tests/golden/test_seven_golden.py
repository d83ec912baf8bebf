"""Files of Kafka 0.7 as prozess, a client of that time, read them; and their contents as the naive twin does."""

import tarfile

import pytest

from kafkalog_cli.log.reading.read import RecordReader
from kafkalog_cli.log.reading.scan import Scan
from tests.golden.test_dump_log_golden import dump
from tests.support.faulty_fs import BytesFile
from tests.support.naive_reader import read_seven, seven_payloads

CODECS = {"0": "NoCompressionCodec", "1": "GZIPCompressionCodec", "2": "SnappyCompressionCodec"}


@pytest.fixture
def case(corpus):
    return corpus / "format-0.7"


def files(case):
    found = sorted((case / "data").rglob("*.kafka"))
    assert len(found) > 12
    return found


def test_lines_are_what_prozess_reads(case):
    tried = valid = 0
    with tarfile.open(case / "expected" / "outputs.tar.gz") as tar:
        readings = {member.name: tar.extractfile(member).read().decode() for member in tar if member.isfile()}
    for name, reading in readings.items():
        path = case / "data" / name.removesuffix(".prozess.txt").replace("__", "/")
        base, tail, wanted = int(path.stem), 0, []
        for line in reading.splitlines()[1:]:
            position, size, magic, codec, *rest = line.split(" ")
            if magic == "error":  # what is left is no message
                break
            tail = int(position) + int(size)
            valid += rest[0] == "true"
            wanted.append(
                f"offset: {base + int(position)} isvalid: {rest[0]} payloadsize: {rest[1]} magic: {magic}"
                f" compresscodec: {CODECS[codec]}"
            )
        code, out, errors = dump(["--files", str(path)])
        assert (code, errors) == (0, b"")
        assert out.decode().splitlines() == [
            f"Dumping {path}",
            f"Starting offset: {base}",
            *wanted,
            f"tail of the log is at offset: {base + tail}",
        ]
        tried += len(wanted)
    assert tried > 200
    assert tried == valid + 1


def test_entries_are_those_that_were_written(case):
    for folder in {path.parent for path in files(case)}:
        lines = [line.split("\t") for line in (folder / "ENTRIES.tsv").read_text().splitlines()[1:]]
        found = []
        for path in sorted(folder.glob("*.kafka")):
            for chunk in Scan(BytesFile(path.read_bytes()), seven_base_offset=int(path.stem)):
                found += [(batch.base_offset, batch.size_bytes) for batch in chunk.batches.rows()]
        wanted = [(int(offset), int(size)) for offset, size in lines]
        assert found == (wanted[: len(found)] if folder.name == "torn-0" else wanted), folder


def test_contents_are_those_of_the_twin(case):
    packed = 0
    for path in files(case):
        data = path.read_bytes()
        messages = list(read_seven(data))
        scan, reader, ours = Scan(BytesFile(data), seven_base_offset=int(path.stem)), RecordReader(), []
        for chunk in scan:
            for block in reader.blocks(chunk):
                assert block.faults == {}
                ours += [(record.batch.position, record.value, record.valid) for record in block.rows()]
        assert ours == [(message.position, *found) for message in messages for found in seven_payloads(message)], path
        packed += sum(message.codec > 0 for message in messages)
    assert packed > 30

"""Files of Kafka 0.7 as prozess, a client of that time, read them; and their contents as the naive reader does."""

import tarfile

import pytest

from tests.golden.test_dump_log_golden import dump
from tests.support.commands import kafkalog, objects_in, stored
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


def objects(path, kind):
    return [one for one in objects_in(kafkalog("dump-log", path, "--format", "json").out) if one["type"] == kind]


def test_entries_are_those_that_were_written(case):
    for folder in {path.parent for path in files(case)}:
        lines = [line.split("\t") for line in (folder / "ENTRIES.tsv").read_text().splitlines()[1:]]
        batches = [one for path in sorted(folder.glob("*.kafka")) for one in objects(path, "batch")]
        found = [(one["base_offset"], one["size"]) for one in batches]
        wanted = [(int(offset), int(size)) for offset, size in lines]
        assert found == (wanted[: len(found)] if folder.name == "torn-0" else wanted), folder


def test_contents_are_those_of_the_naive_reader(case):
    packed = 0
    for path in files(case):
        messages = list(read_seven(path.read_bytes()))
        ours = [(one["position"], stored(one["value"]), one["crc_valid"]) for one in objects(path, "record")]
        wanted = [(message.position, *found) for message in messages for found in seven_payloads(message)]
        assert ours == [(position, value, bool(valid)) for position, value, valid in wanted], path
        packed += sum(message.codec > 0 for message in messages)
    assert packed > 30

"""Checksums in the objects of `kafkalog verify` (text and exit codes: verify.md; their schemas: docs/test_schemas.py)."""

import shutil
import zlib
from pathlib import Path

import crc32c
import pytest

from tests.support.commands import json_of, kafkalog


def verify(*argv):
    return kafkalog("verify", *argv)


def objects(*argv):
    return json_of("verify", *argv)


def test_names_are_printed_without_control_characters(tmp_path):
    folder = tmp_path / "topic-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(b"\0" * 100)
    (folder / "evil\x1b[2J.index").write_bytes(b"")
    for options in ([], ["--format", "json"]):
        _, out, err = verify(folder, *options)
        assert "\x1b" not in out + err


def stored_and_computed(data, position, size, magic):
    """The CRC in a batch's header, and that of its bytes, by zlib and crc32c alone."""
    at, crc = (17, crc32c.crc32c) if magic == 2 else (12, zlib.crc32)
    batch = data[position : position + size]
    return int.from_bytes(batch[at : at + 4], "big"), crc(batch[at + 4 :])


@pytest.mark.parametrize(
    ("case", "magic"), [("v0/data/v0-none-0", 0), ("v1/data/v1-gzip-0", 1), ("v2-none/data/v2-none-0", 2)]
)
def test_a_wrong_checksum_says_which_was_expected_and_which_was_got(corpus, tmp_path, case, magic):
    folder = tmp_path / case.rpartition("/")[2]
    shutil.copytree(corpus / case, folder)
    last = sorted(folder.glob("*.log"))[-1]
    data = bytearray(last.read_bytes())
    for end in (12 + int.from_bytes(data[8:12], "big"), len(data)):  # the last batch is the log's tail
        data[end - 1] ^= 1
    last.write_bytes(data)
    _, lines, _ = objects(folder)
    found = [line for line in lines if line["type"] == "finding" and line["kind"] in ("crc-mismatch", "bad-tail-batch")]
    assert {line["kind"] for line in found} == {"crc-mismatch", "bad-tail-batch"}
    for line in found:
        data = Path(line["path"]).read_bytes()
        size = 12 + int.from_bytes(data[line["position"] + 8 : line["position"] + 12], "big")
        stored, computed = stored_and_computed(data, line["position"], size, magic)
        assert (line["got"], line["expected"]) == (str(stored), str(computed))
        assert stored != computed


def test_a_wrong_checksum_of_0_7_says_both_too(corpus, tmp_path):
    source = next(path for path in sorted((corpus / "format-0.7").rglob("*.kafka")) if path.stat().st_size)
    folder = tmp_path / "topic-0"
    folder.mkdir()
    data = bytearray(source.read_bytes())
    size = 4 + int.from_bytes(data[:4], "big")
    data[size - 1] ^= 1
    (folder / source.name).write_bytes(data)
    _, lines, _ = objects(folder)
    found = next(line for line in lines if line.get("kind") in ("crc-mismatch", "bad-tail-batch"))
    at = 5 + data[4]
    assert found["got"] == str(int.from_bytes(data[at : at + 4], "big"))
    assert found["expected"] == str(zlib.crc32(data[at + 4 : size]))

"""Objects of `kafkalog verify`: their schemas, and the checksums and values in them (text and exit codes: verify.md)."""

import json
import shutil
import zlib
from pathlib import Path

import crc32c
import pytest
from jsonschema import Draft202012Validator

from tests.support.commands import json_of, kafkalog

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"


def verify(*argv):
    return kafkalog("verify", *argv)


def objects(*argv):
    return json_of("verify", *argv)


@pytest.fixture(scope="module")
def schemas():
    found = {}
    for name in ("finding", "verification"):
        schema = json.loads((SCHEMAS / f"kafkalog.{name}-1.json").read_text())
        Draft202012Validator.check_schema(schema)
        found[f"kafkalog.{name}/1"] = Draft202012Validator({**schema, "additionalProperties": False})
    return found


@pytest.mark.exhaustive
@pytest.mark.parametrize("level", ["quick", "normal", "deep"])
def test_every_object_is_as_its_schema_says(corpus, schemas, level):
    seen = {}
    for case in sorted([*corpus.glob("*/before"), *corpus.glob("*/data")]):
        code, lines, errors = objects(case, "--level", level)
        assert not [line for line in errors if line["type"] != "progress"]  # which a slow machine sees
        assert [line["type"] for line in lines].count("summary") == 1
        summary = lines.pop()
        assert (summary["type"], summary["exit_code"]) == ("summary", code)
        findings = [line for line in lines if line["type"] == "finding"]
        assert len(findings) == summary["corruptions"] + summary["warnings"] + summary["infos"]
        assert summary["targets"] == len(lines) - len(findings)
        for line in lines:
            problem = next(schemas[line["schema"]].iter_errors(line), None)
            assert problem is None, (line, problem)
            seen.setdefault(line["type"], line)
    assert set(seen) == {"finding", "verification"}
    for type_, line in seen.items():
        validator = schemas[f"kafkalog.{type_}/1"]
        for field in line:
            assert not validator.is_valid({key: value for key, value in line.items() if key != field}), field


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


def test_values_that_are_known_are_in_the_object(corpus):
    """What a message says in words has its fields too."""
    known = {
        "crc-mismatch", "bad-tail-batch", "unknown-magic", "offsets-not-ascending", "offset-index-inexact", "torn-tail",
        "zero-tail", "high-watermark-beyond-end", "recovery-point-beyond-end", "end-not-seen",
        "producer-snapshot-beyond-end",
    }  # fmt: skip
    seen = set()
    for case in sorted([*corpus.glob("crash-*/before"), *corpus.glob("clean-*/before")]):
        for level in ("quick", "normal"):
            for line in objects(case, "--level", level)[1]:
                if line.get("kind") in known:
                    assert line["expected"] is not None, line
                    assert line["got"] is not None, line
                    seen.add(line["kind"])
    assert seen == known

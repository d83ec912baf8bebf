"""One segment on its own, under any name, also compressed: what verify and the commands that read make of it."""

import gzip
import random
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import zstandard

from tests.support.commands import json_of, kafkalog

SEGMENT = Path(__file__).parents[2] / "docs" / "example" / "mixed-0" / f"{0:020}.log"
PLAIN = ("topic+0+0000000000.log", f"{0:020} (1).log", "mixed-0.bin", f"{0:020}.log.deleted", f"{0:020}.log.swap")
PACKED = ("0.log.gz", "segment.gz", "object.log.zst")
DATA = SEGMENT.read_bytes()
GARBAGE = random.Random(39).randbytes(100_000)


@pytest.fixture
def copy_of(tmp_path):
    """Copy the segment under a name into a directory of other files; the suffix says how it is compressed."""

    def copy(name, data=DATA):
        path = tmp_path / "downloads" / name
        path.parent.mkdir(exist_ok=True)
        (path.parent / "notes.txt").write_text("not of Kafka")
        packed = gzip.compress(data) if name.endswith(".gz") else data
        path.write_bytes(zstandard.compress(data) if name.endswith(".zst") else packed)
        return path

    return copy


def records_of(*command):
    code, lines, _ = json_of(*command)
    assert code == 0
    return [(line["offset"], line["key"], line["value"]) for line in lines if line["type"] == "record"]


@pytest.mark.parametrize("name", [*PLAIN, *PACKED])
def test_a_copy_of_a_segment_gives_the_same_answers_as_its_partition(name, copy_of):
    path, whole = copy_of(name), SEGMENT.parent
    assert records_of("read", path) == records_of("read", whole)
    assert kafkalog("find", path, "--count")[1].endswith(":125\n")
    found, wanted = (json_of("lookup-offset", one, "77")[1][0]["record"] for one in (path, whole))
    assert [found["offset"], found["value"], found["position"]] == [77, wanted["value"], wanted["position"]]
    assert kafkalog("lookup-time", path, "--latest")[1] == "offset: 125\n"
    stats = json_of("stats", path)[1][0]
    assert [stats["records"], stats["bytes"]] == [125, SEGMENT.stat().st_size]
    assert kafkalog("verify", path, "--level", "deep")[:2] == (
        0,
        f"{path}: OK  offsets 0 to 125, 1 segment, 5.9 KiB, 125 records\n",
    )


def test_offsets_come_from_the_batches_of_a_copy(copy_of):
    """The second half of the segment, whose first batch begins above 0."""
    data = SEGMENT.read_bytes()
    batches = [line for line in json_of("dump-log", SEGMENT)[1] if line["type"] == "batch"]
    start, first = batches[10]["position"], batches[10]["base_offset"]
    path = copy_of("half.bin", data[start:])
    assert records_of("read", path)[0][0] == first > 0
    assert kafkalog("lookup-time", path, "--earliest")[1] == f"offset: {first}\n"
    assert f"offsets {first} to 125" in kafkalog("verify", path)[1]


def test_an_empty_segment_that_was_deleted_is_sound(copy_of):
    path = copy_of(f"{7:020}.log.deleted", b"")
    assert kafkalog("verify", path)[:2] == (
        0,
        f"{path}: OK  offsets 7 to 7, 1 segment, 0 bytes\nnot checked: record contents (--level deep)\n",
    )


@pytest.mark.parametrize("name", ["0a1b2c.log", "0a1b2c.log.gz"])
@pytest.mark.parametrize("is_damaged", [False, True])
def test_each_path_that_is_printed_of_a_copy_is_that_of_the_file(copy_of, name, is_damaged):
    data = DATA[:100] + b"!" + DATA[101:] if is_damaged else DATA
    path = copy_of(name, data)
    commands = [
        ("read",),
        ("find", "--count"),
        ("stats",),
        ("lookup-offset", "77"),
        ("lookup-offset", "3"),
        ("verify",),
    ]
    for verb, *options in [*commands, ("lookup-time", "2020-01-01"), ("lookup-time", "--latest")]:
        _, lines, errors = json_of(verb, path, *options)
        paths = {line["path"] for line in [*lines, *errors] if line.get("path")}
        assert paths <= {str(path)}, verb
        if verb.startswith("lookup"):
            assert f"{path}/" not in "".join(kafkalog(verb, path, *options)[1:])


def test_two_copies_are_two_logs_and_a_segment_in_its_place_is_one_of_its_partition(copy_of):
    found = json_of("stats", copy_of("a.log.gz"), copy_of("b.log"), SEGMENT)[1]
    assert [one["topic"] for one in found if one.get("scope") == "topic"] == ["a.log.gz", "b.log", "mixed"]
    assert kafkalog("read", SEGMENT, "--from", "124", "--print", "offset")[1] == "Offset:124\n"


@pytest.mark.parametrize(
    "name",
    [
        *PLAIN,
        *PACKED,
        f"{0:020}.log.gz",
        f"{0:020}.log.cleaned",
        "my.checkpoint",
        "0-0.checkpoint.part",
        "any",
        "backup.index",
    ],
)
def test_a_file_in_which_nothing_is_of_kafka_ends_with_10(name, copy_of):
    path = copy_of(name, GARBAGE)
    assert kafkalog("verify", path)[0] == 10
    assert kafkalog("read", path)[0] == 10


KINDS = ("index", "index.swap", "timeindex.deleted", "txnindex", "snapshot.deleted")


@pytest.mark.parametrize("suffix", KINDS)
def test_random_bytes_under_a_name_of_kafka_are_damage(suffix, copy_of):
    code, out, _ = kafkalog("verify", copy_of(f"{0:020}.{suffix}", GARBAGE))
    assert code in (3, 4), out


def test_a_named_index_is_read_at_the_level_quick_too(copy_of):
    assert kafkalog("verify", copy_of(f"{0:020}.index", GARBAGE), "--level", "quick")[0] == 4


def test_a_misnamed_segment_of_a_partition_stays_a_bad_name(tmp_path):
    """A broker does not start with it, whatever its batches are. Of Kafka 0.7, the name is a position."""
    partition = tmp_path / "mixed-0"
    shutil.copytree(SEGMENT.parent, partition)
    for name in ("old.log", "old.kafka"):
        shutil.copy(SEGMENT, partition / name)
    code, lines, _ = json_of("verify", partition / "old.log")
    assert [code, lines[0]["kind"]] == [4, "bad-name"]
    assert kafkalog("verify", partition / "old.kafka")[0] == 10


@pytest.mark.parametrize("name", ["meta.properties.tmp", "leader-epoch-checkpoint.tmp", "quorum-state.tmp"])
def test_a_temporary_file_ends_with_10(name, copy_of):
    assert kafkalog("verify", copy_of(name, GARBAGE))[0] == 10


@pytest.mark.parametrize("name", ["x.log", "x.log.gz"])
def test_damage_in_a_copy_is_reported_at_its_byte_with_a_step_that_works(name, copy_of):
    data = bytearray(SEGMENT.read_bytes())
    data[100] ^= 0xFF
    path = copy_of(name, bytes(data))
    code, lines, _ = json_of("verify", path)
    (found,) = [line for line in lines if line["type"] == "finding"]
    assert [code, found["kind"], found["path"], found["position"]] == [4, "crc-mismatch", str(path), 0]
    assert found["next_step"] == f"`kafkalog read {path}` prints the records that can be read"
    assert kafkalog("read", path, "--print", "offset")[1].startswith("Offset:6\n")


def test_a_cut_compressed_copy_is_an_error_that_names_it(copy_of):
    path = copy_of("x.log.gz")
    path.write_bytes(path.read_bytes()[:-1000])
    code, _, err = kafkalog("read", path)
    assert code == 1
    assert f"{path}" in err
    assert "cannot be decompressed" in err
    assert kafkalog("verify", path)[0] == 1


@pytest.mark.parametrize("name", ["x.log.gz", "x y.log.zst"])
def test_the_next_step_of_a_cut_copy_writes_the_batches_before_the_cut(copy_of, name):
    if shutil.which("zstd") is None and name.endswith(".zst"):
        pytest.skip("the printed command needs zstd")
    batches = DATA * 200  # more than one block of either format
    path = copy_of(name, batches)
    path.write_bytes(path.read_bytes()[:-30])
    code, _, (error,) = json_of("verify", path)
    unpack, verify = re.findall(r"`([^`]+)`", error["next_step"])
    assert [code, error["exit_code"]] == [1, 1]
    subprocess.run(["sh", "-c", unpack], check=False, capture_output=True)
    part = Path(f"{path}.part").read_bytes()
    assert 0 < len(part) < len(batches)
    assert batches.startswith(part)
    assert f"{path}.part: " in kafkalog(*shlex.split(verify)[1:])[1]


def test_a_zstandard_copy_of_several_frames_is_read_whole(copy_of):
    path = copy_of("x.log")
    path = path.rename(path.with_suffix(".zst"))
    half = len(DATA) // 2
    path.write_bytes(zstandard.compress(DATA[:half]) + zstandard.compress(DATA[half:]))
    assert records_of("read", path) == records_of("read", SEGMENT.parent)


def test_a_copy_in_a_partition_directory_has_the_topic_of_the_directory(tmp_path):
    shutil.copytree(SEGMENT.parent, tmp_path / "mixed-0")
    deleted = tmp_path / "mixed-0" / f"{40:020}.log.deleted"
    shutil.copy(SEGMENT, deleted)
    first = json_of("read", deleted)[1][0]
    assert [first["topic"], first["partition"]] == ["mixed", 0]

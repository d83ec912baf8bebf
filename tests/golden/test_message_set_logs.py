"""Logs that an independent trial found (tests/fixtures/message_sets): what the commands say of message sets v0 and v1."""

import os
import shlex
import shutil
from pathlib import Path

import pytest

import kafkalog_cli as kl
from tests.support.archives import unpack
from tests.support.commands import kafkalog, objects_in
from tests.support.naive_reader import read_batches, read_records


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    target = tmp_path_factory.mktemp("cases")
    unpack(Path(__file__).parents[1] / "fixtures" / "message_sets" / "message_sets.tar.xz", target)
    return target / "corpus"


def called(*argv):
    """(exit code, lines of JSON)."""
    ran = kafkalog(*argv)
    return ran.code, objects_in(ran.out)


def test_a_record_below_the_name_of_its_segment_is_in_each_range(cases):
    (log,) = kl.open(cases / "wrapper-logs")
    whole = [offset for batch in log.records(columns=["offset"]) for offset in batch[0].to_pylist()]
    assert {28, 29} <= set(whole)
    for at in range(whole[0], whole[-1] + 1):
        found = [x for batch in log.records(columns=["offset"], to_offset=at) for x in batch[0].to_pylist()]
        assert found == [offset for offset in whole if offset < at]
    code, lines = called("read", log.path, "--from", 28, "--to-offset", 29, "--format", "json")
    assert (code, [line["offset"] for line in lines if line["type"] == "record"]) == (0, [28])


def records_of(path):
    data = path.read_bytes()
    return [(b._replace(size_bytes=0, position=0, crc=0), *read_records(data, b)) for b in read_batches(data)]


@pytest.mark.parametrize("case", ["compact-min", "compact-keeps-older", "compact-called-damaged"])
def test_compaction_of_segments_that_begin_inside_a_set_is_kafkas(cases, case, tmp_path):
    shutil.copytree(cases / case / "before", tmp_path / "log.dir", copy_function=shutil.copy2)
    name, _, *options = shlex.split((cases / case / "command.txt").read_text())[1:]
    done = tmp_path / "log.dir" / "t-0"
    for second, path in enumerate(sorted(done.glob("*.log"))):  # by these, tombstones of old formats go
        os.utime(path, (1_700_000_000 + second,) * 2)
    code, _ = called(name, done, *options, "--format", "json")
    assert code == 0
    kafka = cases / case / "kafka" / "t-0"

    def names(folder):
        return {path.name for path in folder.iterdir() if path.is_file() and path.suffix != ".deleted"}

    assert names(done) == names(kafka)
    for path in kafka.glob("*.log"):
        assert records_of(done / path.name) == records_of(path)
    same_logs = [path.stem for path in kafka.glob("*.log") if (done / path.name).read_bytes() == path.read_bytes()]
    assert len(same_logs) >= len([*kafka.glob("*.log")]) - 1  # one is packed by another version of zlib
    for path in (path for stem in same_logs for path in kafka.glob(f"{stem}*index")):
        assert (done / path.name).read_bytes() == path.read_bytes()


def test_verify_finds_no_damage_in_a_batch_that_the_cleaner_converted_from_a_set(cases):
    """A batch v2 that begins below the name of its segment: it was a message set."""
    folder = cases / "compact-called-damaged" / "kafka" / "t-0"
    begins = {path.name: next(iter(read_batches(path.read_bytes())), None) for path in folder.glob("*.log")}
    assert any(batch.base_offset < int(name[:20]) for name, batch in begins.items() if batch is not None)
    _, lines = called("verify", "--level", "deep", folder, "--format", "json")
    found = [line for line in lines if line["type"] == "finding" and line["severity"] == "corruption"]
    assert [line for line in found if line["path"].endswith(".log")] == []


def test_a_negative_magic_is_damage_even_with_the_crc_of_an_old_message(cases, tmp_path):
    """A broker takes it for a message set, but no release of Kafka writes one (docs/scope.md)."""
    shutil.copytree(cases / "negative-magic" / "before", tmp_path / "log.dir", copy_function=shutil.copy2)
    name, _, *options = shlex.split((cases / "negative-magic" / "command.txt").read_text())[1:]
    done = tmp_path / "log.dir" / "t-0"
    assert called(name, done, *options, "--format", "json")[0] == 0
    assert (done / "00000000000000000000.log").stat().st_size == 0

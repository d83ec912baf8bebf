"""The name grammar: against Kafka's own parsers, the table of suffixes, hostile names, writing, and what a log directory holds."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.disk.names import (
    DirectoryKind,
    DirectoryName,
    FileKind,
    FileName,
    WorkState,
    _snapshot_id,
    classify_directory,
    classify_file,
    is_topic_name,
    marked_directory_name,
    offset_of_file_name,
    partition_directory_name,
    segment_file_name,
)
from kafkalog_cli.log.log_dir import read_log_dir
from kafkalog_cli.log.partition import partitions_in

# -- The name grammar: against Kafka's own parsers, the table of suffixes, hostile names, writing


ANSWERS = Path(__file__).parents[1] / "fixtures" / "sidecars" / "names.jsonl"
UUID = "0123456789abcdef0123456789abcdef"
SEGMENT_OFFSET = "00000000000000000042"

any_name = (
    st.text(max_size=60)
    | st.text("a-._0 1\n", max_size=40)
    | st.binary(max_size=40).map(lambda raw: raw.decode(errors="surrogateescape"))
)


def answers(operation):
    rows = [json.loads(line) for line in ANSWERS.read_text().splitlines()]
    return {name: answer for row, name, answer in rows if row == operation}


def test_offsets_of_file_names_are_kafkas():
    expected = answers("offset")
    assert len(expected) > 200
    found = {name: offset_of_file_name(name) for name in expected}
    assert {name: None if offset is None else str(offset) for name, offset in found.items()} == expected


def test_topic_and_partition_of_directories_are_kafkas():
    expected = answers("dir")
    assert len(expected) > 200
    for name, answer in expected.items():
        found = classify_directory(name)
        parsed = found.topic is not None and found.separator == "-"
        assert (f"{found.partition} {found.topic}" if parsed else None) == answer, name


def test_metadata_snapshots_are_kafkas():
    expected = answers("snap")
    assert len(expected) > 30
    for name, answer in expected.items():
        found = classify_file(name)
        partial, deleted = found.state is WorkState.PARTIAL, found.state is WorkState.DELETED
        assert (found.kind is FileKind.METADATA_SNAPSHOT) == (answer != "empty")
        if answer == "empty":
            continue
        text = f"{found.offset} {found.epoch} {str(partial).lower()} {str(deleted).lower()}"
        assert (None if found.offset is None else text) == answer, name


SEGMENT_SUFFIXES = {
    ".log": FileKind.LOG,
    ".index": FileKind.OFFSET_INDEX,
    ".timeindex": FileKind.TIME_INDEX,
    ".txnindex": FileKind.TXN_INDEX,
    ".snapshot": FileKind.PRODUCER_SNAPSHOT,
    ".kafka": FileKind.SEVEN_LOG,
}
WORK_SUFFIXES = {
    "": WorkState.IN_PLACE,
    ".cleaned": WorkState.CLEANED,
    ".swap": WorkState.SWAP,
    ".deleted": WorkState.DELETED,
}


@pytest.mark.parametrize("suffix", SEGMENT_SUFFIXES)
@pytest.mark.parametrize("work", WORK_SUFFIXES)
@pytest.mark.parametrize("digits", [SEGMENT_OFFSET, "42", "00000000042", "0" * 40 + "42"])
def test_names_of_segment_files_are_recognised(digits, suffix, work):
    name = digits + suffix + work
    kind, state = SEGMENT_SUFFIXES[suffix], WORK_SUFFIXES[work]
    assert classify_file(name) == FileName(name, kind, state, 42)
    assert segment_file_name(42, kind, state) == SEGMENT_OFFSET + suffix + work


@pytest.mark.parametrize(
    "name",
    [
        *("leader-epoch-checkpoint", "partition.metadata", "recovery-point-offset-checkpoint", "quorum-state"),
        *("replication-offset-checkpoint", "log-start-offset-checkpoint", "cleaner-offset-checkpoint"),
        *("meta.properties", ".kafka_cleanshutdown", ".lock", "bootstrap.checkpoint"),
    ],
)
def test_files_with_fixed_names_are_recognised(name):
    assert classify_file(name) == FileName(name, FileKind(name))
    assert classify_file(f"{name}.tmp") == FileName(f"{name}.tmp", FileKind(name), WorkState.TEMPORARY)
    assert classify_file(f"x{name}").kind is not FileKind(name)


def test_names_of_metadata_snapshots_are_recognised():
    name = "00000000000000000330-0000000007"
    for suffix, state in {"": WorkState.IN_PLACE, ".part": WorkState.PARTIAL, ".deleted": WorkState.DELETED}.items():
        full = f"{name}.checkpoint{suffix}"
        assert classify_file(full) == FileName(full, FileKind.METADATA_SNAPSHOT, state, 330, 7)
    assert classify_file(f"{name}-8437234.checkpoint.part").offset == 330
    assert classify_file("330-7.checkpoint").offset is None


@pytest.mark.parametrize(
    ("name", "kind", "state", "offset"),
    [
        ("server.log", FileKind.LOG, WorkState.IN_PLACE, None),
        (".log", FileKind.LOG, WorkState.IN_PLACE, None),
        ("5.x.log", FileKind.LOG, WorkState.IN_PLACE, 5),
        ("5.log.swap.deleted", FileKind.LOG, WorkState.DELETED, 5),
        ("9223372036854775808.log", FileKind.LOG, WorkState.IN_PLACE, None),
        ("5.log\n", FileKind.OTHER, WorkState.IN_PLACE, None),
        ("5\n.log", FileKind.LOG, WorkState.IN_PLACE, None),
        ("5.log.part", FileKind.OTHER, WorkState.IN_PLACE, None),
        ("5.log.tmp", FileKind.OTHER, WorkState.IN_PLACE, None),
        ("5-1.checkpoint.swap", FileKind.OTHER, WorkState.SWAP, None),
        ("x.deleted", FileKind.OTHER, WorkState.DELETED, None),
        ("5.LOG", FileKind.OTHER, WorkState.IN_PLACE, None),
        ("5.log.", FileKind.OTHER, WorkState.IN_PLACE, None),
        ("00000000000000000000.log.clean", FileKind.OTHER, WorkState.IN_PLACE, None),
        ("", FileKind.OTHER, WorkState.IN_PLACE, None),
        ("..", FileKind.OTHER, WorkState.IN_PLACE, None),
        ("\udcff.log", FileKind.LOG, WorkState.IN_PLACE, None),
    ],
)
def test_unexpected_file_names_are_classified(name, kind, state, offset):
    assert classify_file(name) == FileName(name, kind, state, offset)


@pytest.mark.parametrize(
    "expected",
    [
        ("orders-0", DirectoryKind.PARTITION, "orders", 0, None, "-"),
        ("my-topic.v1-12", DirectoryKind.PARTITION, "my-topic.v1", 12, None, "-"),
        ("__cluster_metadata-0", DirectoryKind.PARTITION, "__cluster_metadata", 0, None, "-"),
        ("my_topic_0", DirectoryKind.PARTITION, "my_topic", 0, None, "_"),
        ("a-b_3", DirectoryKind.PARTITION, "a-b", 3, None, "_"),
        (f"orders-0.{UUID}-delete", DirectoryKind.DELETE, "orders", 0, UUID, "-"),
        (f"orders-0.{UUID}-future", DirectoryKind.FUTURE, "orders", 0, UUID, "-"),
        (f"a-b.c-17.{UUID}-stray", DirectoryKind.STRAY, "a-b.c", 17, UUID, "-"),
        (".kafkalog", DirectoryKind.OWN, None, None, None, "-"),
        ("remote-log-index-cache", DirectoryKind.REMOTE_INDEX_CACHE, None, None, None, "-"),
        ("lost+found", DirectoryKind.OTHER, None, None, None, "-"),
        ("orders-delete", DirectoryKind.OTHER, None, None, None, "-"),
        ("orders_0-delete", DirectoryKind.OTHER, None, None, None, "-"),
        ("a b-0.x-delete", DirectoryKind.OTHER, None, None, None, "-"),
        ("-0", DirectoryKind.OTHER, None, None, None, "-"),
        ("_0", DirectoryKind.OTHER, None, None, None, "-"),
        ("a_2147483648", DirectoryKind.OTHER, None, None, None, "-"),
        ("..", DirectoryKind.OTHER, None, None, None, "-"),
        ("", DirectoryKind.OTHER, None, None, None, "-"),
        ("a\nb-1", DirectoryKind.PARTITION, "a\nb", 1, None, "-"),
    ],
)
def test_names_of_directories_are_classified(expected):
    assert classify_directory(expected[0]) == DirectoryName(*expected)


@settings(deadline=None)
@given(any_name)
def test_any_name_is_classified(name):
    assert classify_file(name).name == name
    found = classify_directory(name)
    assert (found.topic is None) == (found.partition is None)
    if found.kind is DirectoryKind.PARTITION:
        assert found.partition >= 0
        assert name.startswith(found.topic + found.separator)


@pytest.mark.parametrize(("topic", "is_one"), [("t" * 249, True), ("t" * 250, False), ("", False), ("..", False)])
def test_a_topic_name_may_have_249_characters_at_most(topic, is_one):
    assert is_topic_name(topic) == is_one


@pytest.mark.parametrize(("name", "found"), [(f"{7:020}-{3:010}", (7, 3)), (f"{7:020}-{3:09}", (None, None))])
def test_a_snapshot_name_needs_ten_digits_of_its_epoch(name, found):
    """An epoch of nine digits would be one to Java's parser, but Kafka takes ten characters."""
    assert _snapshot_id(name) == found


topics = st.text("abz._-0123", min_size=1, max_size=249)
partitions = st.integers(0, 2**31 - 1)


@settings(deadline=None)
@given(topics, partitions)
def test_names_of_partition_directories_are_classified_as_made(topic, partition):
    found = classify_directory(partition_directory_name(topic, partition))
    assert (found.kind, found.topic, found.partition) == (DirectoryKind.PARTITION, topic, partition)


@settings(deadline=None)
@given(topics, partitions, st.sampled_from([DirectoryKind.DELETE, DirectoryKind.FUTURE, DirectoryKind.STRAY]))
def test_names_of_marked_directories_are_classified_as_made(topic, partition, kind):
    name = marked_directory_name(topic, partition, kind, UUID)
    found = classify_directory(name)
    assert (found.kind, found.partition, found.unique_id) == (kind, partition, UUID)
    assert len(name) <= 255 or kind is DirectoryKind.FUTURE
    assert found.topic == topic or (topic.startswith(found.topic) and found.topic_may_be_cut)


@given(st.text("a5-.", max_size=9))
@example("t-.a-5.")
def test_a_marked_name_has_the_form_of_kafkas_pattern(body):
    """LocalLog.DELETE_DIR_PATTERN wants characters between a dash and a dot, though not that dot ends the partition."""
    if classify_directory(f"{body}-delete").kind is DirectoryKind.DELETE:
        assert re.fullmatch(r"(\S+)-(\S+)\.(\S+)-delete", f"{body}-delete")


@pytest.mark.parametrize("kind", [DirectoryKind.DELETE, DirectoryKind.STRAY])
@pytest.mark.parametrize("letters", [1, 0, -1])
def test_a_marked_name_of_255_characters_may_have_lost_the_end_of_its_topic(kind, letters):
    """A broker takes as much of the topic as fits into 255 characters."""
    topic = "t" * (255 - len(f"-0.{UUID}{kind.value}") + letters)
    found = classify_directory(marked_directory_name(topic, 0, kind, UUID))
    assert (len(found.name), found.topic == topic) == (min(255, 255 + letters), letters < 1)
    assert found.topic_may_be_cut == (letters >= 0)


def test_metadata_topic_in_any_partition_is_the_controllers():
    assert classify_directory("__cluster_metadata-3").is_metadata_log
    assert not classify_directory("__cluster_metadata2-0").is_metadata_log


# -- What a log directory is taken for: its partitions, and its root files in place only


FS = RealFilesystem()


def test_a_checkpoint_being_written_is_not_the_checkpoint(tmp_path):
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\nt 0 7\n")
    (tmp_path / "replication-offset-checkpoint.tmp").write_text("0\n1\nt 0 9\n")
    found = read_log_dir(FS, str(tmp_path))
    assert found.faults == ()
    assert found.line(FileKind.REPLICATION_CHECKPOINT, "t", 0) == 7


def test_partitions_are_listed_by_topic_and_number(tmp_path):
    for name in ("b-0", "a-10", "a-2", "remote-log-index-cache", "backup_2024"):
        (tmp_path / name).mkdir()
    (tmp_path / "a-2" / "partition.metadata").touch()
    logdir = partitions_in(FS, str(tmp_path))
    assert [p.directory.name for p in logdir] == ["a-2", "a-10", "b-0"]

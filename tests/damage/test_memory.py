"""Small logs and files beside them that would take much memory as objects, as text, or several at a time."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest
from crc32c import crc32c

from tests.damage.makers import (
    CONTROL,
    GZIP,
    MEBIBYTE,
    SNAPPY,
    TRANSACTIONAL,
    batch,
    record,
    seven,
    unsigned_varint,
    xerial,
)
from tests.damage.peaks import BOMBS, peaks

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is in KiB on Linux"),
    pytest.mark.exhaustive,
]

MOST_MEBIBYTES = 300
LARGE = 110 * MEBIBYTE
LOG, SEVEN = "00000000000000000000.log", "00000000000000000000.kafka"
SNAPSHOT = "00000000000000000001.snapshot"
SMALL = batch(0, [record(0, b"k", b"v")])
DUMP = ("dump-log", "--deep-iteration", "--print-data-log")


@pytest.fixture(autouse=True)
def counted(evidence):
    evidence("R9", 1, BOMBS)


def partition(log_dir: Path, name: str, **files: bytes) -> str:
    """The path of a new partition directory; the first of `files` is the log."""
    directory = log_dir / name
    directory.mkdir(parents=True)
    for file, data in files.items():
        (directory / file).write_bytes(data)
    return str(directory)


def assert_small(*commands: tuple[str, ...], codes: tuple[int, ...] = (0, 3)) -> None:
    """Each command ends with one of `codes`, in less memory than the bound."""
    found = peaks(commands)
    assert len(found) == len(commands)
    for command, (code, mebibytes) in zip(commands, found, strict=True):
        assert code in codes, command
        assert mebibytes < MOST_MEBIBYTES, (command, mebibytes)


PARTITIONS = 20_000_000
"""As numbers in a list they take 700 MiB, and more as text."""


def assignment() -> tuple[bytes, bytes]:
    """ConsumerGroupTargetAssignmentMember (type 7): one topic with very many partitions."""
    name = struct.pack(">h", 1) + b"g"
    value = struct.pack(">h", 0) + unsigned_varint(2) + bytes(16) + unsigned_varint(PARTITIONS + 1)
    return struct.pack(">h", 7) + name + name, value + bytes(4 * PARTITIONS) + b"\0\0"


def replicas() -> tuple[None, bytes]:
    """PartitionRecord (type 3) of the metadata log, with very many replicas."""
    value = b"\1\3\0" + bytes(4) + b"\1" * 16 + unsigned_varint(PARTITIONS + 1) + bytes(4 * PARTITIONS)
    return None, value + b"\1\1\1" + struct.pack(">iii", 1, 1, 1) + b"\0"


@pytest.mark.parametrize(
    ("topic", "make", "decoder"),
    [
        ("__consumer_offsets-0", assignment, "--offsets-decoder"),
        ("__cluster_metadata-0", replicas, "--cluster-metadata-decoder"),
    ],
)
def test_dump_log_of_an_internal_record_with_many_numbers_stays_within_the_memory_limit(topic, make, decoder, tmp_path):
    path = partition(tmp_path, topic, **{LOG: batch(0, [record(0, *make())], codec=GZIP)})
    assert_small(("dump-log", decoder, path), ("read", path, "--format", "json"))


def test_dump_log_of_a_large_redacted_value_stays_within_the_memory_limit(tmp_path):
    path = partition(tmp_path, "t-0", **{LOG: batch(0, [record(0, b"k", b"\xff" * LARGE)], codec=GZIP)})
    hashes = ("--redact", "keys,values=hash")
    assert_small((*DUMP, *hashes, path), (*DUMP, *hashes, "--format", "json", path))


def test_dump_log_of_a_marker_with_a_large_key_stays_within_the_memory_limit(tmp_path):
    marker = record(0, struct.pack(">hh", 0, 0) + bytes(LARGE), struct.pack(">hi", 0, 5))
    log = batch(0, [marker], codec=SNAPPY, producer=(9, 1, -1), attributes=TRANSACTIONAL | CONTROL)
    path = partition(tmp_path, "t-0", **{LOG: log})
    assert_small((*DUMP, path), (*DUMP, "--format", "json", path))


def test_dump_log_of_a_large_message_of_0_7_stays_within_the_memory_limit(tmp_path):
    inner = xerial(seven(b"\xc3\xa9" * (LARGE // 2)), MEBIBYTE)
    path = partition(tmp_path, "t-0", **{SEVEN: seven(inner, codec=SNAPPY)})
    assert_small((*DUMP, path))


def test_commands_at_a_snapshot_of_very_many_producers_stay_within_the_memory_limit(tmp_path):
    many = 1_200_000
    entry = struct.pack(">qhiqiqiq", 1, 0, 5, 0, 0, 1, -1, -1)
    body = struct.pack(">i", many) + entry * many
    snapshot = struct.pack(">hI", 1, crc32c(body)) + body
    path = partition(tmp_path, "t-0", **{LOG: SMALL, SNAPSHOT: snapshot})
    assert_small(("ls", path), ("read", "--isolation", "read_committed", path))


def test_commands_at_checkpoints_of_very_many_lines_stay_within_the_memory_limit(tmp_path):
    many = 2_500_000
    path = partition(tmp_path, "t-0", **{LOG: SMALL, "leader-epoch-checkpoint": b"0\n%d\n" % many + b"0 0\n" * many})
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"):
        (tmp_path / name).write_bytes(b"0\n%d\n" % many + b"t 0 0\n" * many)
    (tmp_path / "meta.properties").write_bytes(b"a=" + b"b" * (60 * MEBIBYTE))
    assert_small(("ls", path), ("verify", path), ("lookup-time", "--latest", path), codes=(0, 3, 4))


def test_large_batches_of_four_partitions_do_not_add_up(tmp_path):
    packed = batch(0, [record(0, b"k", bytes(LARGE))], codec=GZIP)
    for number in range(4):
        partition(tmp_path / "packed", f"t-{number}", **{LOG: packed})
        partition(tmp_path / "plain", f"t-{number}", **{LOG: batch(0, [record(0, b"k", bytes(80 * MEBIBYTE))])})
    assert_small(
        ("verify", "--level", "deep", "--jobs", "4", str(tmp_path / "packed")),
        ("verify", "--jobs", "4", str(tmp_path / "plain")),
    )

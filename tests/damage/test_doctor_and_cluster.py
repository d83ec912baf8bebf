"""`doctor`, `cluster` and `inspect` on directories that somebody else made: links, FIFOs, bombs, damaged metadata, thousands of partitions."""

import gzip
import json
import os
import random
import struct
import subprocess
import sys

import pytest

from tests.damage.makers import GZIP
from tests.damage.makers import batch as made_batch
from tests.damage.makers import record as made_record
from tests.damage.peaks import peaks
from tests.support.commands import kafkalog
from tests.support.logs import R, batch_v2
from tests.support.metadata_logs import RandomRecords, batches, leader_change, partition, snapshot, topic_id, value

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is in KiB on Linux")

MOST_MEBIBYTES = 300
COMMANDS = [("doctor", "@"), ("doctor", "@", "--format", "json"), ("cluster", "@"),
            ("cluster", "@", "--format", "json", "--part", "topics"), ("cluster", "@", "--since", "0"),
            ("inspect", "@"), ("transactions", "@")]  # fmt: skip
META = "__cluster_metadata-0"
PROPERTIES = "version=1\ncluster.id=aaaaaaaaaaaaaaaaaaaaaa\nnode.id=1\ndirectory.id=bbbbbbbbbbbbbbbbbbbbbb\n"


def answers(place, commands=COMMANDS):
    """Each command ends with an exit code that is its own, in bounded memory."""
    lines = [[word if word != "@" else str(place) for word in command] for command in commands]
    found = peaks(lines)
    for line, peak in zip(lines, found, strict=True):
        assert peak.code in {0, 1, 2, 3, 4, 5, 10, 12, 14}, (line, peak)
        assert peak.mebibytes < MOST_MEBIBYTES, (line, peak)
    return [peak.code for peak in found]


def shown(place, *command):
    """What a command prints in this process, where an internal error fails."""
    return kafkalog(*(word if word != "@" else place for word in command))


def log_dir(path, records=1):
    """A log directory with a metadata log and one partition."""
    (path / "orders-0").mkdir(parents=True)
    (path / "orders-0" / f"{0:020d}.log").write_bytes(batch_v2([R(0, 1_700_000_000_000)]))
    (path / META).mkdir()
    values = [value("TopicRecord", name="orders", topicId=topic_id(1)), partition(topic_id(1), 0)]
    (path / META / f"{0:020d}.log").write_bytes(batches([values] * records)[0])
    (path / "meta.properties").write_text(PROPERTIES)
    (path / "replication-offset-checkpoint").write_text("0\n1\norders 0 1\n")
    return path


def test_doctor_and_cluster_end_where_any_file_is_a_link_or_pipe(tmp_path):
    """Nothing outside is read, and nothing waits for a writer that never comes."""
    secret = tmp_path / "secret"
    secret.write_text("password=hunter2\n")
    place = log_dir(tmp_path / "logs")
    for name in ("meta.properties", "replication-offset-checkpoint", "log-start-offset-checkpoint", ".lock",
                 "cleaner-offset-checkpoint", "bootstrap.checkpoint", ".kafka_cleanshutdown"):  # fmt: skip
        (place / name).unlink(missing_ok=True)
        os.mkfifo(place / name)
    os.mkfifo(place / "orders-0" / "partition.metadata")
    os.mkfifo(place / "orders-0" / "leader-epoch-checkpoint")
    os.mkfifo(place / "orders-0" / f"{5:020d}.log")
    os.mkfifo(place / META / f"{9:020d}-{1:010d}.checkpoint")
    os.mkfifo(place / META / "quorum-state")
    (place / "loop-0").symlink_to(place)
    (place / "up-1").symlink_to("..")
    (place / META / f"{7:020d}-{1:010d}.checkpoint").symlink_to(secret)
    (place / "orders-0" / f"{9:020d}.log").symlink_to("/dev/zero")
    (place / "linked-0").mkdir()
    (place / "linked-0" / f"{0:020d}.log").symlink_to(secret)
    answers(place)
    for command in COMMANDS:
        code, out, err = shown(place, *command)
        assert "hunter2" not in out + err


@pytest.mark.full
def test_doctor_inspect_and_cluster_stay_within_the_memory_limit_at_bombs_and_huge_holes(tmp_path):
    """Small files that want to become large, and large files that are holes."""
    place = log_dir(tmp_path / "logs")
    records = [made_record(at, b"k", b"a" * (55 << 20)) for at in range(2)]
    (place / META / f"{0:020d}.log").write_bytes(made_batch(0, records, codec=GZIP))
    (place / "orders-0" / f"{0:020d}.log").write_bytes(made_batch(0, records, codec=GZIP))
    for name in ("meta.properties", "replication-offset-checkpoint", "cleaner-offset-checkpoint", ".kafka_cleanshutdown",
                 f"{META}/quorum-state", "orders-0/partition.metadata", "orders-0/leader-epoch-checkpoint",
                 f"{META}/{7:020d}-{1:010d}.checkpoint", f"orders-0/{0:020d}.snapshot", f"orders-0/{0:020d}.index",
                 f"orders-0/{0:020d}.timeindex", f"orders-0/{0:020d}.txnindex"):  # fmt: skip
        (place / name).touch()
        os.truncate(place / name, 3 << 30)
    answers(place)
    (place / "huge-0").mkdir()
    (place / "huge-0" / f"{0:020d}.log").touch()
    os.truncate(place / "huge-0" / f"{0:020d}.log", 1 << 40)
    answers(place, [("doctor", "@", "--format", "json"), ("inspect", "@"), ("cluster", "@")])


@pytest.mark.full
def test_a_metadata_batch_that_claims_too_much_costs_no_memory(tmp_path):
    """Arrays with 2**31 - 1 elements, strings of 2 GiB, records of counts that are not there."""
    place = log_dir(tmp_path / "logs")
    for claim in (b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x80\x08"):
        for api in range(30):
            body = b"\x01" + bytes([api]) + b"\0" + claim * 12
            (place / META / f"{0:020d}.log").write_bytes(batch_v2([R(0, 1, None, body), R(1, 1, None, body[:3])]))
            for command in COMMANDS[:4]:
                code, _, _ = shown(place, *command)
                assert code in {0, 3, 4, 12}, (api, command)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(6))
def test_cluster_and_doctor_answer_for_randomly_damaged_metadata(tmp_path, seed):
    """Random flips, cuts and doubled parts of a log that a controller could write, and of its snapshot."""
    chance = random.Random(seed)
    place = log_dir(tmp_path / "logs")
    makers = RandomRecords(chance)
    values = [makers.next() for _ in range(60)]
    log = batches([values[at : at + 4] for at in range(0, 60, 4)])[0] + leader_change(60)
    check = snapshot([values[:20]])
    for _ in range(12):
        for name, data in ((f"{0:020d}.log", log), (f"{20:020d}-{1:010d}.checkpoint", check)):
            (place / META / name).write_bytes(damaged(chance, data))
        for command in COMMANDS[:5]:
            code, out, err = shown(place, *command)
            assert code in {0, 1, 2, 3, 4, 10, 12}, (command, err)
            if "json" in command:
                assert json.loads(out.splitlines()[-1])["exit_code"] == code


def damaged(chance, data):
    data = bytearray(data)
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(len(data))
        kind = chance.randrange(4)
        if kind == 0:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del data[at:]
            data += b"\0"
        elif kind == 2:
            data[at:at] = data[at : at + chance.randrange(1, 200)]
        else:
            data[at : at + 4] = struct.pack(">I", chance.choice([0, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 20]))
    return bytes(data)


def test_doctor_shortens_lists_of_many_partitions(tmp_path):
    """60 directories that the cluster does not know, and 400 partitions that are not on the disk."""
    place = log_dir(tmp_path / "logs")
    data = batch_v2([R(0, 1_700_000_000_000)])
    for number in range(60):
        path = place / f"wide-{number}"
        path.mkdir()
        (path / f"{0:020d}.log").write_bytes(data)
    values = [value("TopicRecord", name="many", topicId=topic_id(2))]
    values += [partition(topic_id(2), number, replicas=(1, 2, 3)) for number in range(400)]
    (place / META / f"{0:020d}.log").write_bytes(
        batches([values[at : at + 100] for at in range(0, len(values), 100)])[0]
    )
    answers(place)
    code, out, _ = shown(place, "doctor", "@")
    assert code in {3, 4}
    assert len(out.splitlines()) < 100  # an answer that somebody reads
    for what in ("steps more like step 2", "steps more like step 3", "commands more like command 3"):
        assert f"51 {what}: --format json has all" in out


def test_the_memory_measurement_sees_400_mebibytes_read_at_once(tmp_path):
    """A command that reads 400 MiB at once is over the limit, so that a test above can fail."""
    (tmp_path / "lines").write_bytes(gzip.compress(b"x"))
    done = subprocess.run([sys.executable, "-c", "x = b'a' * (400 << 20); import resource;"
                           "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert int(done.stdout) > MOST_MEBIBYTES

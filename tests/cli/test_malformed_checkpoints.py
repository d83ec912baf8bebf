"""Root checkpoints that a broker cannot read: verify says what a broker does, recover repairs them, undo is a mv."""

import json
import shlex
import shutil
import subprocess
import sys
from typing import NamedTuple

import pytest

from tests.support.commands import kafkalog
from tests.support.logs import R, batch_v2, write_segment

ROOT = ("recovery-point", "log-start", "replication", "cleaner")
AT_START = ("recovery-point", "log-start")
OFFLINE = {
    "version": b"1\n1\nt 0 2\n",
    "not a version": b"x\n1\nt 0 2\n",
    "count": b"0\n2\nt 0 2\n",
    "not a count": b"0\nx\nt 0 2\n",
    "extra line": b"0\n1\nt 0 2\n\n",
    "a field too few": b"0\n1\nt 0\n",
    "leading space": b"0\n1\n t 0 2\n",
    "not UTF-8": b"0\n1\nt\xff 0 2\n",
    "zeros": bytes(30),
}
ZERO = {"bad number": b"0\n2\nt 0 2\nt x 5\n", "huge number": b"0\n1\nt 0 9223372036854775808\n", "count": b"0\n-1\n"}
READ = {"empty": b"", "no count": b"0\n", "CRLF": b"0\r\n1\r\nt 0 2\r\n", "trailing space": b"0\n1\nt 0 2 \n"}


class Ran(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "log dir"
    (folder / "t-0").mkdir(parents=True)
    records = [R(offset, 1_795_000_000_000 + offset, None, b"value") for offset in range(3)]
    write_segment(folder / "t-0", 0, [(batch_v2(records), 2, records[-1].timestamp)])
    (folder / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=a2Fma2Fsb2ctdGVzdHMtMQ\n")
    (folder / ".kafka_cleanshutdown").write_text("")
    assert kafkalog("recover", folder).code == 0
    return folder


def checkpoint(root, name):
    return root / f"{name}-offset-checkpoint"


def findings(root):
    out = kafkalog("verify", root, "--format", "json").out
    found = [json.loads(line) for line in out.splitlines()]
    return [one for one in found if one["type"] == "finding" and one["kind"].startswith("checkpoint")]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ROOT)
@pytest.mark.parametrize("data", OFFLINE.values(), ids=OFFLINE)
def test_a_checkpoint_with_which_a_broker_takes_the_log_directory_offline_is_corruption(root, name, data):
    checkpoint(root, name).write_bytes(data)
    [found] = {(one["kind"], one["severity"], one["broker_effect"]) for one in findings(root)}
    assert found[:2] == ("checkpoint-malformed", "corruption")
    assert "takes the whole log directory offline" in found[2]
    like_broker = kafkalog("recover", "--like-broker", root / "t-0")
    assert like_broker.code == (14 if name in AT_START else 0)
    if name in AT_START:
        assert "the whole log directory offline" in like_broker.out
        assert checkpoint(root, name).read_bytes() == data


@pytest.mark.parametrize("name", ROOT)
@pytest.mark.parametrize("data", ZERO.values(), ids=ZERO)
def test_a_checkpoint_of_which_a_broker_takes_no_line_is_a_warning(root, name, data):
    checkpoint(root, name).write_bytes(data)
    [found] = {(one["kind"], one["broker_effect"]) for one in findings(root)}
    assert found[0] == ("checkpoint-malformed" if name == "replication" else "checkpoint-damaged")
    assert "offline" not in found[1]


@pytest.mark.parametrize("name", ROOT)
@pytest.mark.parametrize("data", READ.values(), ids=READ)
def test_a_checkpoint_that_a_broker_reads_is_no_finding(root, name, data):
    checkpoint(root, name).write_bytes(data)
    assert findings(root) == []


def test_a_broker_takes_no_line_beside_a_bad_number(root):
    checkpoint(root, "log-start").write_bytes(ZERO["bad number"])
    checkpoint(root, "recovery-point").write_bytes(b"0\n1\nt 0 3\n")
    plan = kafkalog("recover", "--like-broker", "--dry-run", root / "t-0")
    assert "offsets 0 to 3" in plan.out, plan.out


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ROOT)
@pytest.mark.parametrize("data", [*OFFLINE.values(), *ZERO.values()], ids=[*OFFLINE, *(f"0: {name}" for name in ZERO)])
def test_recover_rebuilds_the_file_and_its_undo_works(root, name, data):
    """The next step that verify prints and the undo that recover prints, as a user pastes them."""
    file = checkpoint(root, name)
    file.write_bytes(data)
    step = findings(root)[0]["next_step"]
    command = shlex.split(step.split("`")[1])
    assert command[:2] == ["kafkalog", "recover"]
    dry = kafkalog(*command[1:], "--dry-run")
    assert "would be rebuilt" in dry.err
    assert file.read_bytes() == data
    done = kafkalog(*command[1:])
    assert done.code == 0
    assert findings(root) == []
    assert kafkalog("recover", "--like-broker", "--dry-run", root / "t-0").code == 0
    assert kafkalog("recover", root).err == ""
    undo = done.err.strip().partition("undo: ")[2]
    subprocess.run(["sh", "-c", undo], check=True)
    assert file.read_bytes() == data


def test_lines_that_can_be_read_are_kept(root):
    file = checkpoint(root, "log-start")
    file.write_bytes(b"0\n9\nother 3 7\nt 0 1\nbad\nt 0 2\n")
    kafkalog("recover", root / "t-0")
    assert file.read_bytes() == b"0\n2\nother 3 7\nt 0 2\n"


@pytest.mark.parametrize("name", ROOT)
@pytest.mark.parametrize("options", [(), ("--like-broker",)], ids=["repair", "like broker"])
def test_of_two_lines_of_a_partition_the_last_stays(root, name, options):
    """As a broker does: it reads the lines into a map, and writes the map."""
    file = checkpoint(root, name)
    file.write_bytes(b"0\n3\nt 0 1\nother 3 2\nt 0 2\n")
    done = kafkalog("recover", *options, root / "t-0")
    assert done.code == 0
    assert "it has a partition twice" in done.err
    assert file.read_bytes().splitlines()[1] == b"2"
    assert file.read_bytes().count(b"t 0 ") == 1
    if name == "replication":
        assert file.read_bytes() == b"0\n2\nt 0 2\nother 3 2\n"


def test_recover_leaves_a_checkpoint_that_is_a_link_alone(root, tmp_path):
    target = tmp_path / "elsewhere"
    target.write_bytes(OFFLINE["version"])
    checkpoint(root, "replication").symlink_to(target)
    kafkalog("recover", root)
    assert target.read_bytes() == OFFLINE["version"]
    assert checkpoint(root, "replication").is_symlink()


@pytest.mark.parametrize("kind", [None, "stray", "delete", "future"])
def test_recover_rebuilds_the_file_whatever_else_is_there(root, kind):
    """A broker does not start with the file, even if no partition here can be recovered."""
    if kind is None:
        shutil.rmtree(root / "t-0")
    else:
        (root / "t-0").rename(root / f"t-0.{'ab' * 16}-{kind}")
    file = checkpoint(root, "recovery-point")
    file.write_bytes(OFFLINE["not a count"])
    dry = kafkalog("recover", root, "--dry-run")
    assert "would be rebuilt" in dry.err
    assert file.read_bytes() == OFFLINE["not a count"]
    code, _, err = kafkalog("recover", root)
    assert (code, "rebuilt from 1 line" in err) == (0, True), err
    assert file.read_bytes() == b"0\n1\nt 0 2\n"
    assert kafkalog("verify", root).code != 4


def test_a_log_directory_without_partitions_that_is_locked(root):
    """Nothing is rebuilt beside a broker."""
    shutil.rmtree(root / "t-0")
    file = checkpoint(root, "recovery-point")
    file.write_bytes(OFFLINE["zeros"])
    code = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()"
    broker = subprocess.Popen(
        [sys.executable, "-c", code, root / ".lock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    broker.stdout.readline()
    try:
        assert kafkalog("recover", root).code == 11
        assert file.read_bytes() == OFFLINE["zeros"]
    finally:
        broker.communicate(b"\n")

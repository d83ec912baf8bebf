"""Where `verify` advises a salvage to the last in-sync replica, that step alone, with the commands that it prints, ends in a
clean deep verify, or the words of what is left state the end."""

import shlex

import pytest

from tests.cli.test_every_next_step import (
    ALL,
    COMMAND,
    DISK,
    LOG,
    PARTITION,
    STATED,
    commands_of,
    execute,
    findings,
    kafkalog,
    sound,
)
from tests.support.logs import BASE_TIME_MS, R, batch_v2, write_segment
from tests.support.product import FindingKind, RealFilesystem
from tests.support.watched_fs import FailingFilesystem


def salvaged(command, fs=None):
    """Run the salvage and the commands that it prints; its exit code."""
    code, out, err = kafkalog(*shlex.split(command)[1:], fs=fs)
    assert code in (0, 3, 4), (command, out, err)
    for line in out.splitlines():
        if line.startswith("    "):
            execute(line.strip())
    return code


@pytest.mark.exhaustive
@pytest.mark.parametrize(("kind", "make"), ALL)
def test_the_salvage_command_of_each_finding_copies_all_good_records(corpus, tmp_path, monkeypatch, kind, make):
    if kind is FindingKind.LOCKED:
        return
    monkeypatch.chdir(tmp_path)
    made = make(corpus)
    argv, fs = made if isinstance(made, tuple) else (made, None)
    _, found = findings(argv, fs)
    told = [each for line in found if line["kind"] == kind.value for each in commands_of(line) if "--salvage" in each]
    if told:
        salvaged(told[0], fs)
        _, left = findings([DISK, "--level", "deep"])
        left = [line for line in left if line["severity"] != "info"]
        assert all(STATED.search(line["next_step"]) for line in left), left


@pytest.mark.parametrize("base", [-1, -7])
def test_salvage_leaves_out_a_batch_with_a_negative_base_offset(tmp_path, monkeypatch, base):
    """A broker does not start with it, so the copy is made without it."""
    monkeypatch.chdir(tmp_path)
    log = sound() / LOG
    log.write_bytes(base.to_bytes(8, "big", signed=True) + log.read_bytes()[8:])
    _, found = findings([DISK])
    (line,) = [line for line in found if line["position"] == 0 and line["severity"] == "corruption"]
    command = next(command for command in commands_of(line) if "--salvage" in command)
    assert salvaged(command) == 4
    assert findings([DISK, "--level", "deep"])[0] == 0


def test_a_swap_file_that_is_the_only_copy(tmp_path, monkeypatch):
    """A cleaning was cut off after it had removed its input; then a bit flipped in its output."""
    monkeypatch.chdir(tmp_path)
    data = bytearray((sound() / LOG).read_bytes())
    data[-20] ^= 1
    (PARTITION / f"{LOG}.swap").write_bytes(data)
    (PARTITION / LOG).unlink()
    _, found = findings([PARTITION])
    step = next(line["next_step"] for line in found if line["kind"] == "leftover-swap")
    code, out, _ = kafkalog(*shlex.split(COMMAND.findall(step)[0])[1:])
    assert code == 14
    assert salvaged(next(each for each in COMMAND.findall(out) if "--salvage" in each)) == 4
    code, left = findings([DISK, "--level", "deep"])
    assert code == 0, left
    _, read, _ = kafkalog("read", PARTITION, "--format", "json")
    assert [f'"offset":{offset},' in read for offset in (0, 17, 18, 19)] == [True, True, False, False]


@pytest.mark.parametrize(
    ("in_place", "swap", "copied"),
    [
        ((0, 20), (0, 20), {0: (0, 20)}),  # before the segments that it replaces are removed
        ((8, 20), (0, 20), {0: (0, 8), 8: (8, 20)}),  # the first of them has been removed
        ((0, 20), (8, 20), {0: (0, 20)}),  # one of the two segments that a split makes of a segment
        ((0, 8), (8, 20), {0: (0, 8), 8: (8, 20)}),  # after the first of these was put in place
    ],
)
def test_a_swap_file_gives_what_the_segments_lack(tmp_path, monkeypatch, in_place, swap, copied):
    monkeypatch.chdir(tmp_path)
    folder = sound()
    (folder / LOG).unlink()

    def log(first, end):
        return b"".join(batch_v2([R(at, BASE_TIME_MS, b"k", b"v")]) for at in range(first, end))

    (folder / f"{in_place[0]:020}.log").write_bytes(log(*in_place))
    (folder / f"{swap[0]:020}.log.swap").write_bytes(log(*swap))
    code, out, err = kafkalog("recover", PARTITION, "--salvage", "copies")
    assert (code, "lost" in out) == (0, False), (out, err)
    copies = {path.name: path.read_bytes() for path in (tmp_path / "copies" / "topic-0").glob("*.log")}
    assert copies == {f"{base:020}.log": log(*offsets) for base, offsets in copied.items()}


def test_no_room_for_the_copy_advises_nothing_about_the_copy(tmp_path):
    """The incomplete copy is removed, so that no command can purge it."""
    partition = tmp_path / "t-0"
    partition.mkdir()
    data = batch_v2([R(0, BASE_TIME_MS, b"k", b"v")])
    write_segment(partition, 0, [(data, 0, BASE_TIME_MS)])
    tried = 0
    for number in range(40):
        fs = FailingFilesystem(RealFilesystem(), "ENOSPC", number, for_ever=True)
        code, _, err = kafkalog("recover", partition, "--salvage", tmp_path / f"copies-{number}", fs=fs)
        if not fs.fired:
            break
        tried += 1
        assert code == 13, (number, err)
        assert "purge" not in err, (number, err)
        assert "make room, or write to another disk" in err, (number, err)
    assert tried > 3

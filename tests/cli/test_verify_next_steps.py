"""Every next step that verify prints is run, literally, on every damaged log directory of real brokers."""

import re
import shlex
import shutil
import struct
from pathlib import Path

import pytest

from tests.support.commands import kafkalog

COMMAND = re.compile(r"`(kafkalog [^`]+)`")

STATED_ENDS = {
    # A repair would drop valid batches: what can be read is copied, and that copy is whole.
    "clean-flip-mid", "crash-flip-first-seg", "crash-flip-len", "crash-flip-magic", "crash-flip-mid",
    "crash-flip-offset", "crash-huge-len",
}  # fmt: skip
EXPLAINED = {"clean-gap", "crash-gap"}
"""Records are lost for good: only the operator can say that the topic was compacted."""


def commands_of(path, level="normal"):
    """The exit code of verify, and the commands that its text tells to run."""
    code, out, _ = kafkalog("verify", path, "--level", level)
    steps = [line for line in out.splitlines() if line.startswith("  next: ")]
    assert not [step for step in steps if "PATH" in step]
    return code, list(dict.fromkeys(command for step in steps for command in COMMAND.findall(step)))


def followed(path):
    """Run what verify says until it says nothing new; the commands that were run, with their exit codes."""
    done = {}
    for _ in range(6):
        code, commands = commands_of(path)
        new = [command for command in commands if command not in done]
        if not new:
            return code, done
        done[new[0]] = kafkalog(*shlex.split(new[0])[1:])[0]
    raise AssertionError(f"verify never comes to its end: {done}")


def damaged(corpus):
    return sorted([*corpus.glob("crash-*/before"), *corpus.glob("clean-*/before")])


def test_every_next_step_leads_to_a_clean_verify_or_to_a_stated_end(corpus, tmp_path, monkeypatch):
    cases = damaged(corpus)
    assert len(cases) == 52
    for source in cases:
        name = source.parent.name
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        disk = Path("log dir")  # a blank, that a shell would take apart
        shutil.copytree(source, disk)
        code, done = followed(disk)
        if name in STATED_ENDS:
            assert any("--salvage" in command for command in done), name
            assert code == 4, name
            assert 14 not in done.values(), done  # no repair is named that is refused
            assert commands_of("salvaged")[0] == 0, (name, done)
        elif name in EXPLAINED:
            assert code == 3
            assert [*done.values()] == [0], done
        else:
            assert code == 0, (name, done)
            assert set(done.values()) <= {0}, (name, done)


def lines(path, *, of):
    text = "".join(f"{of[0]} {of[1]} {offset}\n" for offset in (of[2],))
    path.write_text(f"0\n1\n{text}")


@pytest.fixture
def disk(corpus, tmp_path):
    shutil.copytree(corpus / "clean-asis" / "before", tmp_path / "disk")
    return tmp_path / "disk"


def inexact(folder):
    """Damage that misleads no reader, by name."""
    index, other = sorted(folder.glob("*.index"))[0], sorted(folder.glob("*.timeindex"))[0]
    last = sorted(folder.glob("*.index"))[-1]
    return {
        "index length": (index, index.read_bytes() + b"\0\0\0"),
        "time index length": (other, other.read_bytes() + b"\0\0\0"),
        "index zero tail": (index, index.read_bytes() + bytes(4096)),
        "time index zero tail": (other, other.read_bytes() + bytes(12 * 400)),
        "time index without its last entry": (other, other.read_bytes()[:-12]),
        "an entry between the first and the last offset": (index, shifted(index.read_bytes())),
        "such an entry in the last segment": (last, shifted(last.read_bytes())),
    }


def shifted(data):
    offset, position = struct.unpack_from(">ii", data)
    return struct.pack(">ii", offset - 1, position) + data[8:]


@pytest.mark.parametrize("options", [["--indexes-only"], []])
def test_inexact_indexes_are_rebuilt(disk, options):
    folder = disk / "clean-asis-0"
    tried = 0
    for name, (path, data) in inexact(folder).items():
        good = path.read_bytes()
        path.write_bytes(data)
        if commands_of(disk)[0] != 0:
            code, out, _ = kafkalog("recover", disk, *options)
            assert code == 0, name
            assert ("cut to its entries" if "length" in name or "zero" in name else "rebuilt from the log") in out, name
            assert commands_of(disk) == (0, []), name
            assert path.read_bytes() == good or "entry" in name, name
            tried += 1
        path.write_bytes(good)
    assert tried >= 5


@pytest.mark.parametrize(("watermark", "marker", "code"), [(130, True, 4), (127, True, 3), (130, False, 3)])
def test_a_bad_last_batch_is_corruption_where_it_was_acknowledged(corpus, tmp_path, watermark, marker, code):
    """Below the high watermark of a clean stop it is no torn tail: the broker had it whole."""
    shutil.copytree(corpus / "clean-flip-tail" / "before", tmp_path / "disk")
    disk = tmp_path / "disk"
    lines(disk / "replication-offset-checkpoint", of=("clean-flip-tail", 0, watermark))
    if not marker:
        (disk / ".kafka_cleanshutdown").unlink()
    found, out, _ = kafkalog("verify", disk)
    assert found == code
    assert ("[crc-mismatch]" in out, "[bad-tail-batch]" in out) == (code == 4, code == 3)
    if code == 4:
        assert "the broker stopped cleanly with the high watermark 130" in out
    assert followed(disk)[0] == 0


@pytest.mark.parametrize("kind", ["twin-directories", "same-topic-id"])
def test_directories_of_one_partition_are_compared_by_the_command_that_is_printed(disk, kind, monkeypatch):
    monkeypatch.chdir(disk.parent)
    folder = disk / "clean-asis-0"
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    other = "other disk/clean-asis-0" if kind == "twin-directories" else "disk/renamed topic-0"
    shutil.copytree(folder, other)
    if kind == "twin-directories":
        shutil.copy(disk / "meta.properties", "other disk/meta.properties")
    paths = ("disk", "other disk") if kind == "twin-directories" else ("disk",)
    code, out, _ = kafkalog("verify", *paths)
    assert (code, f"[{kind}]" in out) == (4, True), out
    steps = [line for line in out.splitlines() if line.startswith("  next: ") and other.rpartition("/")[0] in line]
    commands = [command for step in steps for command in COMMAND.findall(step)]
    assert commands
    for command in commands:
        _, verb, *rest = shlex.split(command)
        assert verb == ("verify" if kind == "twin-directories" else "ls")
        code, out, err = kafkalog(verb, *rest, *["--verbose"] * (verb == "verify"))
        assert code == 0, (command, err)
        assert "clean-asis" in out

"""Each printed step names exact paths of the directory that was given: not a file of others, nor a pattern.

A segment that was copied into /tmp made /tmp a partition, and `verify /tmp` advised to rename all files *.log there.
"""

import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.commands import everything, kafkalog, writable_copy

FOREIGN = ["heavy.log", "a b.log", "*.log", "x\ny.log", "thesis.deleted", "thesis.swap", "x.cleaned", "q.index", "x.snapshot", "f.timeindex",
           "-f.log", "[0-9].log", "$HOME.log", "`id`.log", "notes.txt", "1.tmp", "12.txt", "z.checkpoint"]  # fmt: skip
PLACES = ["tmp", "a b", "*", "new\nline", "[ab]", "-f", "$(id)", "q'uote", "log.dir", "ümlaut", "x-y", "-1", "`id`"]
COMMANDS = [
    ("verify",), ("verify", "--level", "deep"), ("recover", "--dry-run"), ("recover",), ("recover", "--like-broker"), ("recover", "--indexes-only"),
    ("roll", "--force"), ("append", "--single-replica", "--config", f"segment.ms={2**62}"), ("truncate", "--to", "3", "--single-replica"),
    ("retain", "--config", "cleanup.policy=delete", "--config", "retention.bytes=1"), ("compact", "--config", "cleanup.policy=compact"),
    ("purge", "--older-than", "0s"), ("ls",), ("inspect",), ("dump-index",), ("undo", "20261128T005959.000Z-recover-abcd"),
]  # fmt: skip
STEP = re.compile(r"`([^`]+)`")


def words_of(command, cwd, *, with_globs):
    """The words of a command as bash reads them."""
    script = f"{'' if with_globs else 'set -f; '}printf '%s\\0' {command}"
    ran = subprocess.run(["bash", "--norc", "-c", script], cwd=cwd, capture_output=True, check=False)
    assert ran.returncode == 0, (command, ran.stderr)
    return os.fsdecode(ran.stdout).split("\0")[:-1]


def damage(chance, partition):
    """Anything that makes `verify` advise a step."""
    files = sorted(path for path in partition.iterdir() if path.is_file() and not path.is_symlink())
    for path in chance.sample(files, min(len(files), chance.randrange(4))):
        kind = chance.randrange(5)
        if kind == 0:
            path.unlink()
        elif kind == 1:
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        elif kind == 2:
            path.write_bytes(path.read_bytes() + bytes(30))
        elif kind == 3 and path.stat().st_size:
            data = bytearray(path.read_bytes())
            data[chance.randrange(len(data))] ^= 255
            path.write_bytes(data)
        else:
            path.rename(path.with_name(f"{path.name}{chance.choice(['.swap', '.cleaned', '.deleted'])}"))


def made(corpus, tmp_path, chance):
    """(the directory given, its spelling, the foreign entries): loose segments, a log directory, or a parent of one."""
    place = tmp_path / chance.choice(PLACES)
    shape = chance.choice(["segments", "segments", "log directory", "parent", "empty", "odd root", "lock"])
    source = corpus / "txn" / "data"
    if shape == "segments":
        writable_copy(source / "idem-0", place)
        damage(chance, place)
    elif shape in ("log directory", "odd root"):
        writable_copy(source, place)
        damage(chance, place / "idem-0")
        if shape == "odd root":
            name = chance.choice(["recovery-point-offset-checkpoint", "meta.properties", ".lock"])
            (place / name).unlink(missing_ok=True)
            chance.choice([os.mkdir, os.mkfifo, lambda path: path.symlink_to("nowhere")])(place / name)
    else:
        place.mkdir()
        if shape == "lock":  # of any program
            (place / ".lock").touch()
            (place / "folder").mkdir()
        if shape == "parent":
            writable_copy(source, place / "data")
    foreign = chance.sample(FOREIGN, chance.randrange(1, 8))
    for name in foreign:
        if chance.random() < 0.8:
            (place / name).write_bytes(b"of others")
        else:
            chance.choice([os.mkdir, lambda path: path.symlink_to("/etc/passwd")])(place / name)
    spelled = chance.choice(
        [str(place), place.name, f"{place.name}/", f"./{place.name}/.", f"{place}/../{place.name}", f"{place}//"]
    )
    if spelled.startswith("-"):
        spelled = f"./{spelled}"
    return place, spelled, [place / name for name in foreign], shape in ("log directory", "odd root")


def check_steps(text, place, cwd, foreign, *, is_log_dir):
    """Assert the paths of all commands in a text; return their number."""
    commands = [found for found in STEP.findall(text) if re.match(r"(mv|rm|cp|sed|kafkalog|sudo|chmod|chown) ", found)]
    for command in commands:
        words = words_of(command, cwd, with_globs=False)
        assert words == words_of(command, cwd, with_globs=True), command
        if words[0] not in ("mv", "rm"):
            continue
        assert words[0] != "mv" or (words[1] == "-nT" and len(words) == 4), command
        source = Path(os.path.normpath(cwd / words[2]))
        inside = f"{source.parent.resolve()}/{source.name}"
        assert inside == str(place) or inside.startswith(f"{place}/"), command
        assert os.path.lexists(source), command
        for path in foreign:
            assert inside != str(path) or (is_log_dir and path.is_dir()), command  # no broker starts with it
            assert not inside.startswith(f"{path}/"), command
    return len(commands)


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(8))
def test_the_printed_steps_work_for_any_path_of_a_log_directory(corpus, tmp_path, monkeypatch, part, evidence):
    found, seeds = 0, range(part, 240, 8)
    for seed in seeds:
        chance = random.Random(seed)
        work = tmp_path / str(seed)
        work.mkdir()
        monkeypatch.chdir(work)
        place, spelled, foreign, is_log_dir = made(corpus, work, chance)
        before = {path: facts for one in foreign for path, facts in lonely(one).items()}
        for command in chance.sample(COMMANDS, 4):
            name, *options = command
            if name == "undo":
                ran = kafkalog(name, spelled, *options, errors="surrogateescape")
            else:
                ran = kafkalog(name, spelled, *options, stdin=b'{"value":"a"}\n', errors="surrogateescape")
            found += check_steps(ran.err + ran.out, place, work, foreign, is_log_dir=is_log_dir)
            assert {path: facts for one in foreign for path, facts in lonely(one).items()} == before, (seed, command)
            assert [one.name for one in work.iterdir()] == [place.name], (seed, command)
        monkeypatch.chdir(tmp_path)
        shutil.rmtree(work)
    assert found > 20
    evidence("R75", len(seeds), 8)


def lonely(path):
    """All facts about an entry; a link is not followed."""
    if path.is_symlink() or not path.is_dir():
        return {str(path): (path.lstat().st_ino, path.lstat().st_mtime_ns, path.is_symlink() or path.read_bytes())}
    return everything(path)


def test_a_segment_among_files_of_others_is_not_damaged_by_them(corpus, tmp_path):
    """`verify` reported corruption and named every file; `recover` would have removed indexes and `.deleted` files."""
    place = tmp_path / "tmp"
    writable_copy(corpus / "txn" / "data" / "idem-0", place)
    foreign = [place / name for name in FOREIGN]
    for path in foreign:
        path.write_bytes(b"of others")
    for command in COMMANDS[:-1]:
        name, *options = command
        ran = kafkalog(name, place, *options, stdin=b'{"value":"a"}\n')
        assert ran.code == 0, (command, ran)
        for path in foreign:
            assert path.read_bytes() == b"of others"
            assert path.name not in ran.out + ran.err, (command, ran)
        check_steps(ran.out + ran.err, place, tmp_path, foreign, is_log_dir=False)


@pytest.mark.parametrize("cases", [("v2-logappend",), ("v2-logappend", "v2-none")])
def test_the_step_after_a_metadump_verifies_all_its_log_directories(cases, corpus, tmp_path, monkeypatch):
    """The copies of several log directories are directories in OUT, which is not a log directory itself."""
    monkeypatch.chdir(tmp_path)
    sources = [f"disk of {case}" for case in cases]
    for case, source in zip(cases, sources, strict=True):
        meta = writable_copy(corpus / case / "data", tmp_path / source) / "meta.properties"
        meta.write_text(re.sub("directory.id=.*", f"directory.id={case:A<22}", meta.read_text()))
    code, out, _ = kafkalog("metadump", *sources, "for support")
    (step,) = STEP.findall(out)
    assert code == 0
    argv = words_of(step, tmp_path, with_globs=True)
    assert argv[:2] == ["kafkalog", "verify"]
    code, out, err = kafkalog(*argv[1:])
    assert (code, err) == (0, ""), out
    partitions = sum(path.is_dir() for source in sources for path in (tmp_path / source).iterdir())
    assert out.startswith(f"{partitions} partitions: {partitions} OK")

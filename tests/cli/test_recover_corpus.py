"""`recover --like-broker`, the command itself, on every case of the corpus that a broker has loaded.

The exceptions are in REFUSED, ODD_EPOCH and STALE, with the reasons.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.product import Environment, run

REFUSED = {"crash-flip-offset": "IllegalArgumentException", "clean-zero-tail": "CorruptRecordException"}
"""With these the broker did not start, and left no directory to compare with: the finding says so."""

ODD_EPOCH = "crash-flip-epoch"
"""A batch says epoch 77: when the broker led the partition again it forgot all epochs for it, not only that one."""

STALE = {"idem-0": 150, "tx-0": 178, "tx2-0": 32}
"""Snapshots of `txn` that a broker takes away when it starts: neither the last one nor at the base of a segment."""

NOW = "2026-11-17T00:00:00Z"
"""After the corpus was made: its producers of 2023 have expired, as they had for the broker."""

ROOT_FILES = "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"
EPOCHS = "leader-epoch-checkpoint"
PARTS = 6
"""Tests that tell of the row."""


def recovered(root: Path, topic: str, how: Path, *more: str) -> tuple[int, str]:
    """Run it on one topic, with the settings that the topic had; exit code and output."""
    text = how.read_text()
    line = re.search(rf"^topic {re.escape(topic)} (.*)$", text, re.MULTILINE)
    assert line is not None
    words = line[1].split()
    known = ("segment.index.bytes", "index.interval.bytes")
    configs = [word for word in words if word.partition("=")[0] in known]
    argv = [
        "recover",
        "--like-broker",
        "--topic",
        topic,
        "--now",
        NOW,
        "--broker-config",
        how.with_name("server.properties"),
    ]
    argv += [part for config in configs for part in ("--config", config)]
    out, err = io.BytesIO(), io.BytesIO()
    code = run([*map(str, argv), *more, str(root)], Environment(stdout=out, stderr=err))
    return code, out.getvalue().decode() + err.getvalue().decode()


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def lines_of(root: Path, topic: str) -> dict[str, list[str]]:
    """The partitions' lines of the checkpoints at the root."""
    found = {}
    for name in ROOT_FILES:
        path = root / name
        text = path.read_text().splitlines()[2:] if path.exists() else []
        found[name] = sorted(line for line in text if line.split()[0] == topic)
    return found


def epochs_before(data: bytes, end_offset: int) -> list[list[int]]:
    """Less what starts at the log's end: the broker made that when it led the partition again."""
    entries = [[*map(int, line.split())] for line in data.decode().splitlines()[2:]]
    return [entry for entry in entries if entry[1] != end_offset]


def producers(data: bytes) -> set[bytes]:
    """The entries of 46 bytes of a producer snapshot, after its version, checksum and count."""
    assert (len(data) - 10) % 46 == 0
    return {data[at : at + 46] for at in range(10, len(data), 46)}


def differences(ours: dict[str, bytes], after: dict[str, bytes], end_offset: int) -> list[str]:
    """Files byte for byte, producer snapshots by content, leader epochs up to the log's end."""
    found = [f"{name} on one side only" for name in ours.keys() ^ after.keys()]
    for name in sorted(ours.keys() & after.keys()):
        if name.endswith(".snapshot"):
            is_alike = producers(ours[name]) == producers(after[name])
        elif name == EPOCHS:
            is_alike = epochs_before(ours[name], end_offset) == epochs_before(after[name], end_offset)
        else:
            is_alike = ours[name] == after[name]
        if not is_alike:
            found.append(f"{name} differs")
    return found


def end_of(root: Path, topic: str, number: int) -> int:
    line = next(line for line in lines_of(root, topic)[ROOT_FILES[0]] if line.split()[1] == str(number))
    return int(line.split()[2])


def unpacked(case: Path, target: Path) -> Path:
    """The case, of which `killed` has sparse files in archives."""
    shutil.copytree(case, target)
    for state in ("before", "after"):
        if (target / f"{state}.tar.gz").exists():
            subprocess.run(["tar", "xSzf", f"{state}.tar.gz"], cwd=target, check=True)
    return target


def cases(corpus: Path) -> list[str]:
    return sorted(path.name for path in corpus.iterdir() if re.match("crash-|clean-|killed", path.name))


def test_the_corpus_has_every_case_of_recover(corpus):
    assert len(cases(corpus)) == 53


@pytest.mark.parametrize("kind", ["crash", "clean", "killed"])
def test_recover_makes_of_each_crashed_log_what_a_broker_made_of_it(corpus, tmp_path, kind, evidence):
    tried, found = 0, []
    for name in cases(corpus):
        if not name.startswith(kind) or name in REFUSED:
            continue
        case = unpacked(corpus / name, tmp_path / name)
        code, out = recovered(case / "before", name, case / "how.txt")
        assert code == 0, out
        for after in sorted((case / "after").glob(f"{name}-*")):
            end_offset = end_of(case / "after", name, int(after.name.rpartition("-")[2]))
            ours = files(case / "before" / after.name)
            if name == ODD_EPOCH:
                # A broker that led in epoch 0, and leads in epoch 2, drops epoch 77 with all from 0 on.
                ours[EPOCHS] = b"0\n1\n2 %d\n" % end_offset
            found += [f"{after.name}: {one}" for one in differences(ours, files(after), end_offset)]
            tried += 1
        if lines_of(case / "before", name) != lines_of(case / "after", name):
            found.append(f"{name}: checkpoints")
    assert found == []
    evidence("corpus", tried, PARTS)


def test_recover_refuses_a_log_with_which_a_broker_does_not_start(corpus, tmp_path, evidence):
    for name, java_class in REFUSED.items():
        case = unpacked(corpus / name, tmp_path / name)
        before = files(case / "before" / f"{name}-0")
        code, out = recovered(case / "before", name, case / "how.txt")
        assert code == 14
        assert f"a broker does not start with it: {java_class}" in out
        assert java_class in (corpus / name / "refused.txt").read_text()
        assert files(case / "before" / f"{name}-0") == before
    evidence("corpus", len(REFUSED), PARTS)


@pytest.mark.parametrize(("name", "topics"), [("txn", ["idem", "tx", "tx2"]), ("upgraded", ["upgraded"])])
def test_recover_without_the_marker_keeps_all_files_of_a_clean_stop(corpus, tmp_path, name, topics, evidence):
    """Without the marker, so that all is recovered: only what is stale goes; a second run has nothing to do."""
    root, directories, before = left_by_broker(corpus / name, tmp_path / name, topics)
    lines = [lines_of(root, topic) for topic in topics]
    for again in (False, True):
        for topic in topics:
            code, out = recovered(root, topic, corpus / name / "how.txt")
            assert code == 0, out
            assert not again or "changed" not in re.sub(r"(?m)^\d+ partitions: 0 changed, .*$", "", out), out
    for path in directories:
        topic, _, number = path.name.rpartition("-")
        end_offset = end_of(corpus / name / "data", topic, int(number))
        assert differences(files(path), before[path.name], end_offset) == [], path.name
    assert [lines_of(root, topic) for topic in topics] == lines
    evidence("corpus", len(directories), PARTS)


def test_transaction_indexes_come_back_as_they_were(corpus, tmp_path):
    """A broker looks for them only where another index is missing."""
    topics = ["tx", "tx2"]
    root, directories, before = left_by_broker(corpus / "txn", tmp_path / "txn", topics)
    gone = [path for directory in directories for path in directory.glob("*.txnindex") if path.stat().st_size]
    assert len(gone) > 2
    for path in gone:
        path.unlink()
        path.with_suffix(".index").unlink()
    for topic in topics:
        code, out = recovered(root, topic, corpus / "txn" / "how.txt")
        assert code == 0, out
    assert [path.read_bytes() for path in gone] == [before[path.parent.name][path.name] for path in gone]


def left_by_broker(case: Path, target: Path, topics: list[str]) -> tuple[Path, list[Path], dict[str, dict[str, bytes]]]:
    """A copy of the log directory, the partitions of the topics, and their files but for what is stale."""
    root = unpacked(case, target) / "data"
    directories = [path for topic in topics for path in sorted(root.glob(f"{topic}-[0-9]"))]
    before = {path.name: files(path) for path in directories}
    for name, offset in STALE.items():
        before.get(name, {}).pop(f"{offset:020d}.snapshot", None)
    return root, directories, before

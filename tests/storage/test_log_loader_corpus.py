"""The loader against real brokers: what each corpus case was before the start, and after the next clean stop."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from kafkalog_cli.format import checkpoint, producer_snapshot
from kafkalog_cli.storage.draft import Draft
from kafkalog_cli.storage.fs import RealFilesystem
from kafkalog_cli.storage.leader_epochs import LeaderEpochs
from kafkalog_cli.storage.load_error import LoadFailed
from kafkalog_cli.storage.loaded_segment import LoadSettings
from kafkalog_cli.storage.log_loader import LoadedLog, LogLoader, StartState
from kafkalog_cli.storage.logdir import open_logdir, read_offset_checkpoints
from kafkalog_cli.storage.names import FileKind

NOW_MS = 1_795_000_000_000
"""After the corpus was made: its producers of 2023 have expired, as they had for the broker."""

REFUSED = {
    "crash-flip-offset": "IllegalArgumentException",
    "clean-zero-tail": "CorruptRecordException",
}

EPOCHS = FileKind.LEADER_EPOCH_CHECKPOINT.value


class Started(NamedTuple):
    """A partition as the loader leaves it."""

    draft: Draft
    loaded: LoadedLog


def cases(corpus: Path) -> list[str]:
    return sorted(path.name for path in corpus.iterdir() if path.name.startswith(("crash-", "clean-")))


def start(case: Path, number: int = 0) -> Started:
    """Load the case's partition as the broker did, with the topic's settings from how.txt."""
    fs = RealFilesystem()
    logdir = open_logdir(fs, str(case / "before"))
    key = (case.name, number)
    partition = next(p for p in logdir.partitions if (p.directory.topic, p.directory.partition) == key)
    offsets, _ = read_offset_checkpoints(fs, logdir)
    start_state = StartState(
        logdir.is_clean,
        offsets[FileKind.RECOVERY_POINT_CHECKPOINT].get(key, 0),
        offsets[FileKind.LOG_START_CHECKPOINT].get(key, 0),
    )
    draft = Draft(fs, partition.path)
    return Started(draft, LogLoader(draft, start_state, settings(case)).load())


def settings(case: Path) -> LoadSettings:
    line = re.search(rf"^topic {case.name} (.*)$", (case / "how.txt").read_text(), re.MULTILINE)
    assert line is not None
    configs = dict(setting.split("=") for setting in line[1].split())
    return LoadSettings(
        NOW_MS,
        segment_index_bytes=int(configs.get("segment.index.bytes", 10 << 20)),
        index_interval_bytes=int(configs["index.interval.bytes"]),
    )


def as_leader(epochs: bytes, log_end_offset: int) -> list[checkpoint.EpochEntry]:
    """What the broker made of the epochs when it led the partition again: the old epoch, then the new one."""
    cache = LeaderEpochs.from_file(epochs) if epochs else LeaderEpochs()
    for epoch in (0, 2):
        cache.assign(epoch, log_end_offset)
    return cache.entries


def compared(name: str, data: bytes) -> object:
    if name.endswith(".snapshot"):
        entries, faults = producer_snapshot.decode(data)
        return data if faults else set(entries)
    return data


def test_a_broker_that_was_killed_while_it_wrote(corpus: Path, tmp_path: Path) -> None:
    """Two partitions with preallocated indexes of 10 MiB, which lie in the case as sparse archives."""
    case = tmp_path / "killed"
    shutil.copytree(corpus / case.name, case)
    for state in ("before", "after"):
        subprocess.run(["tar", "xSzf", f"{state}.tar.gz"], cwd=case, check=True)
    assert differences_of(case, 0) + differences_of(case, 1) == []


def test_every_case_is_there(corpus: Path) -> None:
    assert len(cases(corpus)) == 52


@pytest.mark.parametrize("kind", ["crash", "clean"])
def test_after_from_before(corpus: Path, kind: str) -> None:
    """Every file of the partition byte for byte, snapshots as sets, epochs as the leader left them."""
    differences = []
    for name in cases(corpus):
        if not name.startswith(kind) or name in REFUSED:
            continue
        differences += differences_of(corpus / name)
    assert not differences, "\n".join(differences)


def differences_of(case: Path, number: int = 0) -> list[str]:
    """What the loader leaves otherwise than the broker did."""
    draft, loaded = start(case, number)
    name = f"{case.name}-{number}"
    after = {file.name: file.read_bytes() for file in (case / "after" / name).iterdir()}
    differences = []
    ours = {file: draft.read(file) for file in draft.names()}
    expected_epochs, _ = checkpoint.decode_leader_epochs(after.pop(EPOCHS))
    if as_leader(ours.pop(EPOCHS), loaded.log_end_offset) != expected_epochs:
        differences.append(f"{name}: epochs, expected {expected_epochs}")
    differences += [f"{name}: {file} is missing" for file in sorted(after.keys() - ours.keys())]
    differences += [f"{name}: {file} is too much" for file in sorted(ours.keys() - after.keys())]
    differences += [
        f"{name}: {file} differs, {len(ours[file])} against {len(after[file])} bytes"
        for file in sorted(after.keys() & ours.keys())
        if compared(file, ours[file]) != compared(file, after[file])
    ]
    recovery_points, _ = checkpoint.decode_offsets(
        (case / "after" / FileKind.RECOVERY_POINT_CHECKPOINT.value).read_bytes()
    )
    expected = {(entry.topic, entry.partition): entry.offset for entry in recovery_points}[case.name, number]
    if loaded.log_end_offset != expected:
        differences.append(f"{name}: log end {loaded.log_end_offset}, expected {expected}")
    return differences


@pytest.mark.parametrize("name", REFUSED)
def test_refused(corpus: Path, name: str) -> None:
    """The broker did not start with these."""
    with pytest.raises(LoadFailed) as caught:
        start(corpus / name)
    assert caught.value.java_class == REFUSED[name]
    assert caught.value.java_class in (corpus / name / "refused.txt").read_text()

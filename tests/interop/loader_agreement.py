"""One damaged partition through the real loader and ours: the outcome, the offsets, and every file."""

import io
import shutil
import subprocess
from pathlib import Path
from random import Random
from typing import NamedTuple

from loader_damage import damage, random_partition

from kafkalog_cli.cli.app import run
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.format import producer_snapshot
from kafkalog_cli.storage.draft import Draft
from kafkalog_cli.storage.fs import RealFilesystem
from kafkalog_cli.storage.kernels import KernelChoice
from kafkalog_cli.storage.load_error import LoadFailed
from kafkalog_cli.storage.loaded_segment import LoadSettings
from kafkalog_cli.storage.log_loader import LogLoader, StartState

NOW_MS = 1_795_000_000_000
KEPT = ("crash-", "clean-", "txn", "upgraded", "v0", "v1", "v2-", "compact-", "retention", "client-", "internal")


class Case(NamedTuple):
    """How a broker starts: offsets of the checkpoints, 0 where there are none, and settings."""

    seed: int
    is_clean: bool
    recovery_point: int
    log_start: int
    segment_index_bytes: int
    index_interval_bytes: int
    producer_id_expiration_ms: int


class Outcome(NamedTuple):
    """What came out: the class of what was thrown, or offsets and files (snapshots as sets)."""

    thrown: str | None
    offsets: tuple | None = None
    files: dict | None = None


def source_partitions(corpus):
    """Partitions of the corpus to begin with, few of a case."""
    found = sorted(corpus.glob("*/*/*-[0-9]"))
    return [path for path in found if path.parts[-3].startswith(KEPT) and list(path.glob("*.log"))]


def make_case(seed, sources, directory):
    """A damaged partition in `directory`, and how it is loaded."""
    chance = Random(seed)
    if chance.random() < 0.4:
        random_partition(chance, directory)
    else:
        shutil.copytree(chance.choice(sources), directory)
        for path in [directory, *directory.iterdir()]:
            path.chmod(0o755)
    damage(chance, directory)
    return Case(
        seed,
        chance.random() < 0.5,
        chance.choice([0, 0, 0, 30, 60, 100, 120, 130, 10**6]),
        chance.choice([0, 0, 0, 0, 17, 50, 100, 130, 140, 500]),
        chance.choice([4096, 4096, 1 << 20, 256, 48]),
        chance.choice([300, 300, 4096, 0, 1]),
        chance.choice([86_400_000, 2**31 - 1, 2**31 - 1]),
    )


def our_outcome(directory, case):
    """By the library."""
    draft = Draft(RealFilesystem(), str(directory))
    settings = LoadSettings(
        NOW_MS,
        case.segment_index_bytes,
        case.index_interval_bytes,
        case.producer_id_expiration_ms,
        kernels=KernelChoice(forced=case.seed % 3 == 0),
    )
    start = StartState(case.is_clean, case.recovery_point, case.log_start)
    try:
        loaded = LogLoader(draft, start, settings).load()
    except LoadFailed as failure:
        return Outcome(failure.java_class)
    offsets = loaded.log_start_offset, loaded.log_end_offset, loaded.recovery_point
    return Outcome(None, offsets, {name: comparable(name, draft.read(name)) for name in draft.names()})


def our_command_outcome(directory, case):
    """By the command, in a log directory around a copy; the recovery point is what it left in the checkpoint."""
    root = directory.parent / "log.dir"
    shutil.copytree(directory, root / "t-0")
    (root / "meta.properties").write_text("version=1\nnode.id=1\n")
    for name, offset in (("recovery-point", case.recovery_point), ("log-start", case.log_start)):
        (root / f"{name}-offset-checkpoint").write_text(f"0\n1\nt 0 {offset}\n")
    if case.is_clean:
        (root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":7}')
    properties = directory.parent / "server.properties"
    properties.write_text(f"producer.id.expiration.ms={case.producer_id_expiration_ms}\n")
    argv = ["recover", str(root), "--like-broker", "--now", str(NOW_MS), "--broker-config", str(properties)]
    for name in ("segment_index_bytes", "index_interval_bytes"):
        argv += ["--config", f"{name.replace('_', '.')}={getattr(case, name)}"]
    out, err = io.BytesIO(), io.BytesIO()
    code = run(argv, Environment(stdout=out, stderr=err))
    assert code in (0, 14), (code, err.getvalue())
    lines = (root / "recovery-point-offset-checkpoint").read_text().split()
    files = contents(root / "t-0")
    shutil.rmtree(root)
    return Outcome("refused") if code else Outcome(None, (int(lines[4]),), files)


def comparable(name, data):
    """Snapshots have no order."""
    if ".snapshot" in name:
        entries, faults = producer_snapshot.decode(data)
        return data if faults else frozenset(entries)
    return data


def contents(directory):
    return {path.name: comparable(path.name, path.read_bytes()) for path in directory.iterdir() if path.is_file()}


class RealLoader:
    """A JVM that loads one partition after the other."""

    def __init__(self, class_path):
        options = ["-XX:+UseSerialGC", "-Xmx2g", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=off"]
        self._process = subprocess.Popen(
            ["java", *options, "-cp", class_path, "LoadLogs"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def outcome(self, directory, case):
        """Load it, stop cleanly, and look at what is there."""
        words = [directory, case.recovery_point, case.log_start, int(case.is_clean), NOW_MS]
        words += [case.producer_id_expiration_ms, f"segment.index.bytes={case.segment_index_bytes}"]
        words += [f"index.interval.bytes={case.index_interval_bytes}"]
        self._process.stdin.write("\t".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().rstrip("\n").split("\t")
        assert answer != [""], "the JVM has gone"
        if answer[0] != "ok":
            return Outcome(answer[0])
        return Outcome(None, tuple(map(int, answer[1:4])), contents(Path(directory)))

    def close(self):
        self._process.stdin.close()
        self._process.wait(timeout=30)


def differences(ours, real):
    """In words; none if both agree. Of a refusal the files are left as they were, and not compared."""
    if ours.thrown or real.thrown:
        return [] if ours.thrown and real.thrown else [f"ours {ours.thrown or 'loads'}, real {real.thrown or 'loads'}"]
    found = [] if ours.offsets == real.offsets else [f"offsets {ours.offsets}, real {real.offsets}"]
    for name in sorted(ours.files.keys() | real.files.keys()):
        if ours.files.get(name) != real.files.get(name):
            sizes = [len(files[name]) if name in files else "none" for files in (ours.files, real.files)]
            found.append(f"{name}: {sizes[0]} against {sizes[1]}")
    return found

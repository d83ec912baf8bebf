"""Any files of a partition damaged, then what an operator does: verify, recover, verify, recover again, undo.

After a recover that ends with 0, verify has nothing that recover repairs, a second recover finds nothing to do, and undo
gives every byte back. A partition that verify finds sound is not refused.
"""

import json
import random
import shutil

import pytest

from tests.support.commands import kafkalog
from tests.support.effort import DIAL

CASES = 240
SOURCES = {
    "clean-asis/before": "clean-asis-0",
    "crash-asis/before": "crash-asis-0",
    "txn/data": "idem-0",
    "upgraded/data": "upgraded-0",
    "clean-deleted/before": "clean-deleted-0",
}
STATED_ENDS = {"missing-offsets", "log-start-beyond-end"}
"""Findings whose next step is no repair: whether records are lost is for the operator to say."""
OFFSETS = (0, 1, 5, 20, 57, 60, 100, 1000, 1 << 62)


def copied(corpus, source, name, parent):
    """A log directory with one partition of the source."""
    disk = parent / "disk"
    shutil.copytree(corpus / source, disk)
    for path in [*disk.iterdir()]:
        if path.is_dir() and path.name != name:
            shutil.rmtree(path)
    for path in [disk, *disk.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return disk, disk / name


def damage_bytes(chance, data):
    """The bytes with a bit flipped, cut, longer, of zeros, or none."""
    at = chance.randrange(len(data)) if data else 0
    return chance.choice(
        [
            data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :] if data else b"\1",
            data[:at],
            data + bytes(chance.choice([1, 8, 12, 4096])),
            bytes(len(data)),
            b"",
        ]
    )


def damage(chance, disk, partition):
    """Damage one file, or add or remove one. Only the end of a log is touched, which a crash leaves torn."""
    files = sorted(path for path in partition.iterdir() if path.is_file())
    logs = [path for path in files if path.suffix == ".log"]
    others = [path for path in files if path.suffix != ".log" and path.name != "partition.metadata"]
    kind = chance.choice(["bytes", "bytes", "remove", "tail", "tail", "line", "copy", "new"])
    if kind == "bytes" and others:
        path = chance.choice(others)
        path.write_bytes(damage_bytes(chance, path.read_bytes()))
    elif kind == "remove" and others:
        chance.choice(others).unlink()
    elif kind == "tail":
        data = logs[-1].read_bytes()
        cut = data[: len(data) - chance.randrange(300)] if len(data) > 300 else data
        logs[-1].write_bytes(
            chance.choice([cut, data + bytes(chance.choice([1, 17, 4096])), data + chance.randbytes(80)])
        )
    elif kind == "line":
        path = chance.choice(sorted(disk.glob("*-offset-checkpoint")))
        topic, _, number = partition.name.rpartition("-")
        path.write_text(f"0\n1\n{topic} {number} {chance.choice(OFFSETS)}\n")
    elif kind == "copy":
        path = chance.choice(files)
        shutil.copy(path, f"{path}{chance.choice(['.swap', '.cleaned', '.deleted'])}")
    elif kind == "new":
        suffix = chance.choice(["index", "timeindex", "txnindex", "snapshot", "log.deleted"])
        (partition / f"{chance.choice(OFFSETS):020d}.{suffix}").write_bytes(chance.randbytes(chance.choice([0, 30])))


def objects(text, kind):
    return [one for one in map(json.loads, text.splitlines()) if one["type"] == kind]


def files(disk):
    """Every file but ours and the lock."""
    paths = (path for path in disk.rglob("*") if path.is_file() and ".kafkalog" not in path.parts)
    return {str(path): path.read_bytes() for path in paths if path.name != ".lock"}


def worse_than_notes(text):
    return {one["kind"] for one in objects(text, "finding") if one["severity"] != "info"}


@pytest.mark.exhaustive
@pytest.mark.parametrize("source", SOURCES)
def test_after_recover_there_is_nothing_left_to_repair(corpus, tmp_path, source, evidence):
    count = DIAL.part(CASES // len(SOURCES))
    for seed in range(count):
        chance = random.Random(f"{source} {seed}")
        disk, partition = copied(corpus, source, SOURCES[source], tmp_path)
        if chance.random() < 0.3:
            (disk / ".kafka_cleanshutdown").unlink(missing_ok=True)
        for _ in range(chance.choice([1, 1, 2, 3])):
            damage(chance, disk, partition)
        before = files(disk)
        was_sound = kafkalog("verify", disk, "--format", "json")[0] == 0
        code, out, err = kafkalog("recover", disk, "--format", "json")
        assert code in ((0,) if was_sound else (0, 14)), (seed, out, err)
        if code == 0:
            left = worse_than_notes(kafkalog("verify", disk, "--format", "json")[1])
            assert left <= STATED_ENDS or "log-start-beyond-end" in left, (seed, left)
            again, out_again, _ = kafkalog("recover", disk, "--format", "json")
            assert (again, objects(out_again, "summary")[0]["changed"]) == (0, 0), (seed, out_again)
        runs = {one["run"] for one in map(json.loads, out.splitlines()) if one.get("run")}
        for run in runs:
            assert kafkalog("undo", disk, run)[0] == 0, seed
        assert {path: data for path, data in files(disk).items() if ".damaged-" not in path} == before, seed
        shutil.rmtree(disk)
    evidence("R46", count, len(SOURCES))

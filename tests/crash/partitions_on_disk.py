"""A log directory with a partition of each kind, on a real disk or in memory, and what is told of each."""

from __future__ import annotations

from pathlib import Path

from tests.crash.log_directories import FIXTURES, SOUND, records_of
from tests.support.memory_fs import MemoryFilesystem

NAMES = {name: f"t-{at}" for at, name in enumerate(FIXTURES)}
SOUND_NAMES = {name: f"t-{at}" for at, name in enumerate(SOUND)}
"""Kind to directory."""

Contents = dict[str, bytes]


def files(names: dict[str, str] = NAMES) -> Contents:
    """All of it, by path below the log directory."""
    found = {"meta.properties": b"version=1\nnode.id=1\n", ".lock": b"", "replication-offset-checkpoint": b"0\n0\n"}
    lines = b"".join(b"t %d 900\n" % at for at in range(len(names)))
    found["recovery-point-offset-checkpoint"] = b"0\n%d\n" % len(names) + lines
    for name, directory in names.items():
        for file, data in (FIXTURES | SOUND)[name]().items():
            if file != "partition.metadata":  # two directories may not have one topic id
                found[f"{directory}/{file}"] = data
    return found


def write(root: Path, names: dict[str, str] = NAMES) -> None:
    """Make it on a disk."""
    for path, data in files(names).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)


def in_memory(root: str, names: dict[str, str] = NAMES) -> MemoryFilesystem:
    """Make it in memory."""
    fs = MemoryFilesystem()
    for path, data in files(names).items():
        fs.add(f"{root}/{path}", data)
    fs.settle()
    return fs


def read(root: Path) -> Contents:
    """The files of partitions and of the log directory; not what we keep."""
    found = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in found
        if ".kafkalog" not in str(path.relative_to(root)) and path.name != ".lock"
    }


def of_partition(contents: Contents, directory: str) -> Contents:
    """The files of one."""
    return {path: data for path, data in contents.items() if path.startswith(f"{directory}/")}


def all_records(contents: Contents) -> dict[str, list[object]]:
    """Directory to the records in it, in the order in which they lie."""
    found: dict[str, list[object]] = {path.partition("/")[0]: [] for path in contents if "/" in path}
    for path, data in sorted(contents.items()):
        if path.endswith(".log"):
            found[path.partition("/")[0]] += records_of(data)
    return found

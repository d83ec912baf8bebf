"""recover under power cuts: after every call, with every kind of loss, a second recover finds what is to be found."""

from collections import Counter
from pathlib import Path

import pytest

from tests.support.commands import kafkalog
from tests.support.memory_fs import MemoryFilesystem
from tests.support.naive_reader import read_batches
from tests.support.watched_fs import RecordingFilesystem

ROOT = "/log"
MARKER = f"{ROOT}/.kafka_cleanshutdown"
SETTINGS = ("--config", "segment.index.bytes=4096", "--config", "index.interval.bytes=300", "--now", "1795000000000")

CASES = [
    ("crash-torn", ()),
    ("clean-torn", ()),
    ("crash-bad-snapshot", ()),
    ("crash-swap", ()),
    ("crash-swap-cleaned", ()),
    ("clean-del-index", ()),
    ("crash-orphan-index", ()),
    ("crash-empty-tail", ()),
    ("crash-flip-mid", ("--like-broker",)),
    ("crash-flip-first-seg", ("--like-broker",)),
    ("crash-swap", ("--like-broker",)),
    ("clean-garbage-index", ("--indexes-only",)),
]


def load(corpus: Path, name: str) -> MemoryFilesystem:
    """A case's log directory in memory, all of it on the disk."""
    disk = MemoryFilesystem()
    before = corpus / name / "before"
    for path in sorted(before.rglob("*")):
        if path.is_file():
            disk.add(f"{ROOT}/{path.relative_to(before)}", path.read_bytes())
    disk.settle()
    return disk


def recover(fs, *options: str) -> tuple[int, str]:
    return kafkalog("recover", ROOT, *SETTINGS, *options, fs=fs)[:2]


def partition_of(name: str) -> str:
    return f"{ROOT}/{name}-0"


def logs(fs: MemoryFilesystem, name: str) -> dict[str, bytes]:
    """The `.log` files, by name."""
    found = fs.tree(partition_of(name), without=(f"{partition_of(name)}/.kafkalog",))
    return {path: facts[0] for path, facts in found.items() if path.endswith(".log")}


def batches(fs: MemoryFilesystem, name: str) -> list[tuple[int, int]]:
    """(base offset, CRC) of the valid batches, in order."""
    return [
        (batch.base_offset, batch.crc)
        for _, data in sorted(logs(fs, name).items())
        for batch in read_batches(data)
        if batch.valid
    ]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "options"), CASES, ids=lambda value: value if isinstance(value, str) else "".join(value)
)
def test_a_power_cut_at_any_call_of_recover_leaves_what_another_recover_completes(corpus, name, options):
    """What is found is what was or what was planned; a second recover ends as the first would have, a third idles."""
    counts = Counter()
    whole = load(corpus, name)
    before = batches(whole, name)
    had_marker = whole.status(MARKER) is not None
    assert recover(whole, *options)[0] == 0
    after = batches(whole, name)
    end = logs(whole, name)

    disk = load(corpus, name)
    found = []

    def cut(call):
        counts["points"] += 1
        found.extend((f"{what} after {call[:3]}", image) for what, image in disk.images())

    assert recover(RecordingFilesystem(disk, cut), *options)[0] == 0
    seen = set()
    for number, (where, image) in enumerate(found):
        state = sorted((path, facts[0]) for path, facts in image.tree(ROOT).items() if "/.kafkalog" not in path)
        key = hash(str(state))
        if key in seen and number % 11:
            continue  # the same files as another image; of what we keep itself a sample will do
        seen.add(key)
        counts["images"] += 1
        look(image, name, options, before, after, end, where, had_marker=had_marker)
    print(name, *options, dict(counts))
    assert counts["points"] > 10
    assert counts["images"] > 10


def look(image, name, options, before, after, end, where, *, had_marker):
    there = batches(image, name)
    assert len(set(there)) == len(there), f"{where}: a batch twice"
    if image.status(MARKER) is not None:
        assert had_marker, where
        assert there in (before, after), f"{where}: the marker on a log that is neither"
    assert recover(image, *options)[0] == 0, where
    assert batches(image, name) == after, where
    if options == ("--like-broker",):
        assert set(logs(image, name)) == set(end), where
    else:
        assert logs(image, name) == end, where
    still = contents(image)
    code, out = recover(image, *options)
    assert code == 0, where
    assert "nothing to do" in out or options == ("--like-broker",), where
    assert contents(image) == still, where


def contents(fs: MemoryFilesystem) -> dict[str, object]:
    """All but what we keep, and what a broker that starts removes."""
    tree = fs.tree(ROOT)
    return {
        path: facts[0] for path, facts in tree.items() if "/.kafkalog" not in path and not path.endswith(".deleted")
    }

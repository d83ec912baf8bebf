"""`append` to a partition's directory in any odd state, and its undo: the directory is then as it was before.

A broker that starts takes a directory without a log for an empty partition, and makes its first segment.
"""

import random
import re
import stat

import pytest

from tests.cli.test_append import MARKER, NOW, records
from tests.support.commands import kafkalog

ID = "AAAAAAAAAAAAAAAAAAAAAQ"
METADATA = f"version: 0\ntopic_id: {ID}".encode()
CHOICES = {
    "partition.metadata": (METADATA, METADATA, METADATA, METADATA[:-9], b""),
    "leader-epoch-checkpoint": (b"", b"0\n0\n", b"0\n1\n3 0\n"),
    f"{0:020d}.index": (b"", bytes(8)),
    f"{0:020d}.timeindex": (b"", bytes(12)),
    f"{0:020d}.txnindex": (b"",),
    f"{0:020d}.snapshot": (b"", b"snapshot"),
    f"{7:020d}.snapshot": (b"snapshot",),
    f"{0:020d}.log": (b"",),
    f"{5:020d}.log": (b"",),
    f"{0:020d}.log.deleted": (b"rest",),
    "notes.txt": (b"notes",),
    "partition.metadata.tmp": (METADATA[:5],),
}
ALONE = [{}, *({name: data} for name, choices in CHOICES.items() for data in dict.fromkeys(choices))]
BAD_LINE, LINE = b"nonsense\n", b'{"value":"a"}\n'


def random_state(seed):
    chance = random.Random(seed)
    names = chance.sample(list(CHOICES), chance.choice([2, 2, 3, 4]))
    return {name: chance.choice(CHOICES[name]) for name in names}


def made(tmp_path, state, mode=0o755):
    root = tmp_path / "data"
    path = root / "new-3"
    path.mkdir(parents=True)
    (root / "meta.properties").write_bytes(b"version=1\nbroker.id=1\n")
    (root / MARKER).write_bytes(b"{}")
    for name, data in state.items():
        (path / name).write_bytes(data)
        (path / name).chmod(mode & 0o666)
    path.chmod(mode)
    return path


def listing(path):
    """All entries but kafkalog's own, with bytes and modes; and the mode of the directory."""
    if not path.exists():
        return None
    found = {one.name: (one.read_bytes(), one.stat().st_mode) for one in path.iterdir() if one.name != ".kafkalog"}
    return stat.S_IMODE(path.stat().st_mode), found


def check_undo(path, options=()):
    """Append, failing first, and undo; return whether records were appended."""
    before, root_before = listing(path), listing_of_root(path.parent)
    assert kafkalog("append", path, *NOW, *options, stdin=BAD_LINE).code != 0
    assert listing(path) == before
    code, out, err = kafkalog("append", path, *NOW, *options, stdin=LINE)
    if code != 0:
        assert (listing(path), listing_of_root(path.parent)) == (before, root_before), err
        return False
    assert [record[3] for record in records(path)] == [b"a"]
    run = re.search(r"kafkalog undo \S+ (\S+)", out).group(1).rstrip("`")
    code, _, err = kafkalog("undo", path, run, *NOW[:2])
    assert code == 0, err
    assert (listing(path), listing_of_root(path.parent)) == (before, root_before)
    assert kafkalog("undo", path, run, *NOW[:2]).code in (0, 10)
    assert listing(path) == before
    return True


def listing_of_root(root):
    return {one.name: one.read_bytes() for one in root.iterdir() if one.is_file() and one.name != ".lock"}


@pytest.mark.parametrize("mode", [0o755, 0o700])
def test_undo_of_an_append_restores_a_partition_directory_with_a_single_file(tmp_path, mode):
    taken = [
        check_undo(made(tmp_path / str(number), state, mode), ("--topic-id", ID) if number % 2 else ())
        for number, state in enumerate(ALONE)
    ]
    assert sum(taken) > 5


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(8))
def test_undo_of_an_append_restores_a_partition_directory_with_any_files(tmp_path, part, evidence):
    states = [random_state(seed) for seed in range(part, 200, 8)]
    taken = [check_undo(made(tmp_path / str(number), state)) for number, state in enumerate(states)]
    assert any(taken)
    evidence("R76", len(taken), 8)


@pytest.mark.parametrize("state", [{"leader-epoch-checkpoint": b"0\n1\n3 0\n"}, {f"{0:020d}.index": bytes(8)}])
def test_the_step_of_a_refusal_leads_to_an_append(tmp_path, state):
    path = made(tmp_path, {"partition.metadata": METADATA, **state})
    before = listing(path)
    code, out, err = kafkalog("append", path, *NOW, stdin=LINE)
    assert code == 14, err
    step = re.search(r"`kafkalog (recover [^`]*)`", out).group(1)
    code, out, err = kafkalog(*step.split(), *NOW[:2])
    assert code == 0, err
    assert kafkalog("append", path, *NOW, stdin=LINE).code == 0
    runs = sorted(one.name for one in (path / ".kafkalog").iterdir() if one.is_dir())
    for run in reversed(runs):
        assert kafkalog("undo", path, run, *NOW[:2]).code == 0
    assert listing(path) == before

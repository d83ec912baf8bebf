"""Manifests that no run wrote: whatever they say, nothing outside of their partition changes, and the message names them.

The partition's owner has the right to his own files and lines, so what is asked is about all others.
"""

# ruff: noqa: F811 - `place` is a fixture

import copy
import json
import os

import pytest

from tests.attacks.test_links import COMMANDS, PARTITION, RUN, facts, kafkalog, own, place  # noqa: F401
from tests.attacks.test_sizes import MOST_RSS_BYTES, measured
from tests.support.effort import DIAL
from tests.support.product import RealFilesystem

CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
OTHERS = b"0\n2\nother 5 700\nthird 0 900\n"
RUNNING = ("undo", "roll", "recover", "truncate")
"""Commands that follow a manifest: `undo`, and any other where the run was cut off."""


def document(state="started", **more):
    """A run that changed nothing, as kafkalog writes it."""
    run = {"run_id": RUN, "action": "recover", "argv": [], "now_ms": 0}
    found = {
        "format": 1, "state": state, "directory": PARTITION, "discard": False, "finished_ms": None, "run": run,
        "changes": [], "edits": [], "before": {"mtime_ns": 0, "files": {}, "checkpoint_lines": []}, "after": None,
        "facts": {}, "order": 0,
    }  # fmt: skip
    return {**found, **more}


def files_of(place):
    """The facts of the partition's files, so that a run is not refused for another reason."""
    found = {}
    for path in (place / "ld" / PARTITION).iterdir():
        status = path.lstat()
        if path.is_file():
            facts = {"size_bytes": status.st_size, "mtime_ns": status.st_mtime_ns, "inode": status.st_ino}
            found[path.name] = {**facts, "mode": status.st_mode & 0o7777}
    return found


def planted(place, found):
    run = own(place) / RUN
    run.mkdir(exist_ok=True)
    text = found if isinstance(found, (bytes, str)) else json.dumps(found)
    (run / "manifest.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    (run / "0000.new").write_bytes(b"theirs")


def lines_of_another(file, lines, edits=None):
    """`lines` are (topic, partition, text, place), which the run says to have found in the checkpoint."""

    def make(place):
        old = {
            "file": file, "size_bytes": 3, "sha256": "0" * 64, "mtime_ns": 0,
            "lines": [dict(zip(("topic", "partition", "text", "place"), line, strict=True)) for line in lines],
        }  # fmt: skip
        edited = [{"kind": file, "topic": topic, "partition": number, "offset": 5} for topic, number, _, _ in lines]
        before = {"mtime_ns": 0, "files": files_of(place), "checkpoint_lines": [old]}
        return document(before=before, edits=edited if edits is None else edits)

    return make


OWN_LINE = ("crash-torn", 0, "crash-torn 0 5", 0)
LINES = {
    "another partition's line changes": [("other", 5, "other 5 1", 0)],
    "another partition's line goes": [("other", 5, None, None)],
    "a new partition's line comes": [("new", 0, "new 0 1", 0)],
    "another's line comes as its own": [("crash-torn", 0, "other 5 1", 0)],
    "two lines come as one": [("crash-torn", 0, "crash-torn 0 1\nother 5 1", 0)],
    "two lines come as one, of another system": [("crash-torn", 0, "crash-torn 0 1\rother 5 1", 0)],
    "its line and another's": [OWN_LINE, ("other", 5, "other 5 1", 0)],
    "its line at no place": [("crash-torn", 0, "crash-torn 0 1", None)],
    "its line at a place below 0": [("crash-torn", 0, "crash-torn 0 1", -1)],
    "its line at an absurd place": [("crash-torn", 0, "crash-torn 0 1", 1 << 70)],
    "a partition that is no number": [("other", "5", "other 5 1", 0)],
    "a partition that is true": [("other", True, None, None)],
    "a line that is no text": [("crash-torn", 0, 5, 0)],
    "a line of half a character": [("crash-torn", 0, "crash-torn 0 1\udfff", 0)],
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("what", LINES)
def test_lines_of_other_partitions_stay(place, what, evidence):
    tried = 0
    for file in CHECKPOINTS if DIAL.scale > 1 else CHECKPOINTS[len(what) % 4 :][:1]:
        for edits in (None, []):
            for name in CHECKPOINTS:
                (place / "ld" / name).write_bytes(OTHERS)
            planted(place, lines_of_another(file, LINES[what], edits)(place))
            for command in RUNNING:
                kafkalog(RealFilesystem(), place, COMMANDS[command])
                for name in CHECKPOINTS:
                    kept = (place / "ld" / name).read_bytes().splitlines()[2:]
                    assert [line for line in kept if not line.startswith(b"crash-torn 0 ")] == OTHERS.splitlines()[2:]
                tried += 1
    evidence("R29", tried, len(LINES) + len(FORMS) + len(TEXTS))


# -- fields


def paths(value, path=()):
    """Where the values of a document are, with those of one change of each list and file of each table."""
    yield path
    if isinstance(value, dict):
        for name, one in value.items():
            yield from paths(one, (*path, name))
    elif isinstance(value, list):
        for at, one in enumerate(value):
            yield from paths(one, (*path, at))


def put(value, path, new):
    found = copy.deepcopy(value)
    if not path:
        return new
    at = found
    for name in path[:-1]:
        at = at[name]
    if new is ABSENT:
        del at[path[-1]]
    else:
        at[path[-1]] = new
    return found


ABSENT = object()
ABSURD = {
    "absent": ABSENT,
    "null": None,
    "true": True,
    "a fraction": 1.5,
    "below 0": -1,
    "huge": 1 << 200,
    "a text": "x",
    "empty": "",
    "a path": "../../victim/file1",
    "a full path": "/etc/passwd",
    "a parent": "..",
    "NUL": "a\0b",
    "half a character": "\ud83d",
    "another byte": "\udcff",
    "our directory": ".kafkalog",
    "the manifest": "manifest.json",
    "a long name": "n" * 5000,
    "an escape": "\x1b]0;x\x07",
    "a list": [],
    "a deep list": [[[[[]]]]],
    "an object": {},
    "an object of objects": {"a": {"b": {}}},
}
KINDS = ("cut", "move", "drop", "put", "grow", "replace", "make")


def every_field(place):
    """A manifest that has all fields, of a run that was cut off."""
    files = files_of(place)
    name = "leader-epoch-checkpoint"
    line = dict(zip(("topic", "partition", "text", "place"), OWN_LINE, strict=True))
    old = {"file": CHECKPOINTS[0], "size_bytes": 3, "sha256": "0" * 64, "mtime_ns": 0, "lines": [line]}
    change = {
        "kind": "put", "name": name, "new_name": "x", "origin": name, "from_bytes": 3, "to_bytes": 1, "replaces": True,
        "linked": True, "kept": "0000.new", "staged": "0001.new", "sha256": "0" * 64, "mtime_ns": 0,
    }  # fmt: skip
    run = {"run_id": RUN, "action": "recover", "argv": ["x"], "now_ms": 0, "settings": {"a": "b"}, "version": "1"}
    flags = {"holds_marker": True, "keeps_records": True, "makes_directory": False}
    before = {"mtime_ns": 0, "files": files, "checkpoint_lines": [old]}
    edit = {"kind": CHECKPOINTS[0], "topic": "crash-torn", "partition": 0, "offset": 5}
    return document(run={**run, **flags}, changes=[change], edits=[edit], before=before, after=copy.deepcopy(before))


def fields(place):
    """Every place in the document; of the files of a partition one is enough."""
    first = min(files_of(place))
    for path in paths(every_field(place)):
        if "files" not in path[:-1] or path[path.index("files") + 1] == first:
            yield path


FORMS = [*KINDS, "done"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", FORMS)
def test_no_field_of_another_type_is_followed(place, kind, evidence):
    """Every field by every absurd value, for each kind of change; the sound document is refused or undone alike."""
    for name in CHECKPOINTS:
        (place / "ld" / name).write_bytes(OTHERS)
    sound = every_field(place)
    sound["state"] = "done" if kind == "done" else "started"
    sound["changes"][0]["kind"] = "put" if kind == "done" else kind
    before, tried = facts(place / "victim"), 0
    combinations = [(path, value) for path in fields(place) for value in ABSURD]
    step = 1 if DIAL.scale > 1 else 41
    for at, (path, value) in enumerate(combinations):
        if at % step != FORMS.index(kind) % step:
            continue
        if not path and ABSURD[value] is ABSENT:
            continue
        planted(place, json.dumps(put(sound, path, ABSURD[value])))
        code, err = kafkalog(RealFilesystem(), place, COMMANDS["undo"])
        assert code in (0, 1, 12, 14), (path, value, err)
        assert "\x1b" not in err
        if "manifest" in err and code == 14 and "cannot be read" in err:
            assert f"{RUN}/manifest.json" in err, (path, value, err)
            assert "rm -r " in err, err
        assert facts(place / "victim") == before, (path, value)
        for name in CHECKPOINTS:
            kept = (place / "ld" / name).read_bytes().splitlines()[2:]
            assert [line for line in kept if not line.startswith(b"crash-torn 0 ")] == OTHERS.splitlines()[2:], path
        tried += 1
    evidence("R29", tried, len(LINES) + len(FORMS) + len(TEXTS))


TEXTS = {
    "nothing": b"",
    "no JSON": b"{",
    "no object": b"[]",
    "no UTF-8": b'{"format": "\xff"}',
    "nested": b"[" * 200_000,
    "nested in a value": b'{"format": 1, "facts": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "a number of many digits": b'{"format": ' + b"9" * 5000 + b"}",
    "a format of tomorrow": b'{"format": 2}',
    "a format of text": b'{"format": "1"}',
    "a format of no number": b'{"format": NaN}',
    "a name twice": b'{"format": 1, "format": 1}',
}


@pytest.mark.parametrize("what", TEXTS)
def test_a_manifest_that_is_no_manifest_is_refused_by_its_path(place, what, evidence):
    planted(place, TEXTS[what])
    before = facts(place / "victim")
    code, err = kafkalog(RealFilesystem(), place, COMMANDS["undo"])
    assert code in (12, 14), err
    assert f"{RUN}/manifest.json" in err
    for command in ("roll", "truncate", "recover"):  # a recover is the last run from then on
        _, err = kafkalog(RealFilesystem(), place, COMMANDS[command])
        assert f"{RUN}/manifest.json" in err, (command, err)
    assert facts(place / "victim") == before
    evidence("R29", 1, len(LINES) + len(FORMS) + len(TEXTS))


def test_the_name_of_a_field_that_is_twice_is_not_followed(place):
    """Which of the two counts, other programs may see in another way."""
    text = json.dumps(document(before={"mtime_ns": 0, "files": files_of(place), "checkpoint_lines": []}))
    planted(place, text.replace('"discard": false', '"discard": true, "discard": false'))
    code, err = kafkalog(RealFilesystem(), place, COMMANDS["undo"])
    assert code == 14, err
    assert "twice" in err


def test_undo_restores_no_link_as_a_kept_file(place):
    """A link that lies where a run keeps a file is not given back as that file."""
    name = "leader-epoch-checkpoint"
    change = {"kind": "replace", "name": name, "kept": "kept"}
    before = {"mtime_ns": 0, "files": files_of(place), "checkpoint_lines": []}
    planted(place, document("done", changes=[change], before=before))
    (own(place) / RUN / "kept").symlink_to(place / "victim/file1")
    (place / "ld" / PARTITION / name).write_bytes(b"changed since")
    for command in RUNNING:
        kafkalog(RealFilesystem(), place, COMMANDS[command])
        assert not (place / "ld" / PARTITION / name).is_symlink(), command


def test_a_partition_that_a_manifest_claims_to_have_made_stays(place):
    """An undone run removes the directory that it has made; no run has made one that had records before it."""
    found = document("done", before={"mtime_ns": 0, "files": files_of(place), "checkpoint_lines": []})
    found["run"]["makes_directory"] = True
    planted(place, found)
    code, err = kafkalog(RealFilesystem(), place, COMMANDS["undo"])
    assert code == 0, err
    assert (place / "ld" / PARTITION / "00000000000000000000.log").stat().st_size


def test_a_large_manifest_is_refused_before_it_is_read(place):
    """2 GiB in one line, most of it a hole: the memory of the process stays what it was."""
    (own(place) / RUN).mkdir()
    path = own(place) / RUN / "manifest.json"
    path.write_bytes(b'{"format": "')
    os.truncate(path, 2 << 30)
    partition = str(place / "ld" / PARTITION)
    text, peak = measured(f"undo {partition} {RUN}")
    assert "2147483648 bytes" in text
    assert peak < MOST_RSS_BYTES

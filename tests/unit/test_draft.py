"""A draft against a dict of bytes: what is read from it, and where its changes lead."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.change.changes import Cut, Drop, Move, Put
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.errors import PathNotFound
from tests.support.plain_changes import files, make

NAMES = ["a", "b", "c.swap", "c", "d.deleted", "d"]
names = st.sampled_from(NAMES)
contents = st.binary(max_size=20) | st.just(bytes(9))
operations = st.one_of(
    st.tuples(st.just("drop"), names),
    st.tuples(st.just("move"), names, names),
    st.tuples(st.just("cut"), names, st.integers(0, 15)),
    st.tuples(st.just("put"), names, contents, st.integers(0, 5)),
    st.tuples(st.just("slice"), names, names, st.integers(0, 5), st.integers(0, 9)),
)


def change(draft, model, untouched, operation):
    """The same on both; `untouched` are the files as they lie on the disk, of which parts can be copied."""
    verb, name, *rest = operation
    if verb == "drop":
        draft.drop(name)
        model.pop(name, None)
        untouched.pop(name, None)
    elif verb == "move":
        draft.move(name, rest[0])
        if name in model:
            model[rest[0]] = model.pop(name)
            moved = untouched.pop(name, None)
            untouched.pop(rest[0], None)
            if moved is not None:
                untouched[rest[0]] = moved
    elif verb == "cut" and name in model:
        draft.cut(name, rest[0])
        model[name] = model[name][: rest[0]]
        untouched.pop(name, None)
    elif verb == "put":
        draft.put(name, rest[0], rest[1])
        model[name] = rest[0] + bytes(rest[1])
        untouched.pop(name, None)
    elif verb == "slice" and rest[0] in untouched and name not in untouched:
        source, start, size = rest
        size = max(0, min(size, len(model[source]) - start))
        draft.slice(name, source, start, size)
        model[name] = model[source][start : start + size]


@given(before=st.dictionaries(names, contents, max_size=5), steps=st.lists(operations, max_size=12))
def test_a_draft_reads_and_changes_as_a_dictionary_of_bytes(tmp_path_factory, before, steps):
    directory = tmp_path_factory.mktemp("draft") / "t-0"
    directory.mkdir()
    for name, data in before.items():
        (directory / name).write_bytes(data)
    draft, model, untouched = Draft(RealFilesystem(), str(directory)), dict(before), dict(before)
    for step in steps:
        change(draft, model, untouched, step)
        assert {name: draft.read(name) for name in draft.names()} == model
    assert {name: draft.size_bytes(name) for name in model} == {name: len(data) for name, data in model.items()}
    assert files(directory) == before
    listed = [(s.path.rpartition("/")[2], s.size_bytes) for s in draft.list_directory(str(directory))]
    assert listed == sorted((name, len(data)) for name, data in model.items())
    try:
        changes = draft.changes()
    except ValueError:  # two files that swap their names: no broker does that
        return
    make(directory, changes)
    assert files(directory) == model


@pytest.fixture
def partition(tmp_path):
    (tmp_path / "t-0").mkdir()
    return tmp_path / "t-0"


def test_a_draft_without_changes_plans_none(partition):
    (partition / "a").write_bytes(b"as it was")
    draft = Draft(RealFilesystem(), str(partition))
    draft.put("a", b"as it was")
    assert draft.changes() == []


def test_the_shortest_change_is_planned(partition):
    for name in ("cut", "trimmed", "gone", "moved.swap", "moved", "other"):
        (partition / name).write_bytes(b"0123456789")
    draft = Draft(RealFilesystem(), str(partition))
    draft.cut("cut", 4)
    draft.put("trimmed", b"01234")
    draft.drop("gone")
    draft.move("moved.swap", "moved")
    draft.put("other", b"x")
    draft.put("new", b"")
    planned = draft.changes()
    assert planned[:5] == [
        Drop("gone"),
        Drop("moved"),
        Move("moved.swap", "moved"),
        Cut("cut", 10, 4),
        Cut("trimmed", 10, 5),
    ]
    assert [(put.name, put.replaces) for put in planned[5:] if isinstance(put, Put)] == [
        ("new", False),
        ("other", True),
    ]


def test_changes_of_a_fork_do_not_change_its_draft(partition):
    (partition / "a").write_bytes(b"a")
    draft = Draft(RealFilesystem(), str(partition))
    draft.put("b", b"first")
    fork = draft.fork()
    fork.put("b", b"second")
    draft.put("c", b"third")
    fork.drop("a")
    assert {name: draft.read(name) for name in draft.names()} == {"a": b"a", "b": b"first", "c": b"third"}
    assert {name: fork.read(name) for name in fork.names()} == {"b": b"second"}


def test_large_contents_leave_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("kafkalog_cli.change.draft.HELD_BYTES", 1000)
    draft = Draft(RealFilesystem(), str(tmp_path))
    for number in range(5):
        draft.put(f"{number}", bytes([number]) * 700)
    assert [draft.read(f"{number}") for number in range(5)] == [bytes([number]) * 700 for number in range(5)]
    make(tmp_path, draft.changes())
    assert files(tmp_path) == {f"{number}": bytes([number]) * 700 for number in range(5)}


def test_paths_outside_are_not_there(tmp_path):
    draft = Draft(RealFilesystem(), str(tmp_path))
    draft.put("a", b"")
    assert draft.status(f"{tmp_path}/a").size_bytes == 0
    assert draft.status(f"{tmp_path}/sub/a") is None
    for path in (f"{tmp_path}/b", "/a", f"{tmp_path}/sub/a"):
        with pytest.raises(PathNotFound):
            draft.open_read(path)
    with pytest.raises(PathNotFound):
        draft.list_directory("/")

"""A directory that import reads, or imports into, belongs to another user: no file elsewhere is read, written or named.

Links lead to files of records that hold a secret. Names of topics come from directories, metadata and columns.
"""

# ruff: noqa: F811 - `place` is a fixture

import os
from contextlib import suppress

import pytest

pytest.importorskip("pyspark", reason="the extra `spark` is not installed: nothing of Spark is tested")

from tests.attacks.test_links import facts, place  # noqa: F401
from tests.attacks.test_odd_files_read import at_most, device, of_another_user, socket_at, tree
from tests.spark.exporting import export, pa, pq, tasks_here
from tests.spark.importing import import_into, new_log_dir, seen
from tests.support.logs import BASE_TIME_MS, R, batch_v2
from tests.support.product import KafkalogError

SECRET = "0c4nary5ecret"
MOST_SECONDS = 600
KINDS = (".parquet", ".arrow", ".ndjson")


def write(path, value=b"good", metadata=None, **columns):
    """A file of two records in the format of its suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"value": pa.array([value, value]), "partition": pa.array([0, 0], pa.int32()), **columns})
    table = table.replace_schema_metadata(metadata)
    if path.suffix == ".parquet":
        with path.open("wb") as file:
            pq.write_table(table, file)
    elif path.suffix == ".arrow":
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
            out.write_table(table)
    else:
        path.write_text(f'{{"value":"{value.decode()}","partition":0}}\n' * 2)


@pytest.fixture
def input_(place):
    """Beside the inputs lie root's own files of records, with the secret, of every kind; and a new log directory."""
    for kind in KINDS:
        write(place / f"theirs/a{kind}", SECRET.encode())
        write(place / f"input/good{kind}")
    (place / "theirs/passwords").write_text(f"root:{SECRET}:0:0\n")
    new_log_dir(place / "new")
    return place


def told(place, **options):
    """What an import says, and all bytes that it has made."""
    with at_most(MOST_SECONDS):
        try:
            found = repr(
                import_into(place / "new", place / "input", **{"topic": "orders", "new_offsets": True, **options})
            )
        except KafkalogError as error:
            found = f"{type(error).__name__}: {error}"
    made = [path.read_bytes().decode(errors="replace") for path in (place / "new").rglob("*") if path.is_file()]
    return found + "".join(made)


ODD = {
    "another user's link": lambda path, place: of_another_user(path, place / f"theirs/a{path.suffix}"),
    "another user's link to text": lambda path, place: of_another_user(path, place / "theirs/passwords"),
    "a pipe": lambda path, _: os.mkfifo(path),
    "a link to a pipe": lambda path, place: (os.mkfifo(place / "pipe"), path.symlink_to(place / "pipe")),
    "a socket": lambda path, _: socket_at(path),
    "a device": lambda path, _: device(path),
    "a link to /dev/zero": lambda path, _: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path, _: path.symlink_to(path.name),
    "a link to nothing": lambda path, _: path.symlink_to("nothing"),
    "a directory of another user's link": lambda path, place: of_another_user(path.parent / "more", place / "theirs"),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("when", ["before the plan", "before the tasks"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("odd", ODD)
def test_import_reads_no_input_that_leads_out_of_its_directory(input_, odd, kind, when, evidence):
    path = input_ / f"input/good{kind}"
    before = tree(input_ / "theirs"), facts(input_ / "victim")
    struck = []

    def strike():
        if not struck:
            struck.append(path)
            path.unlink()
            ODD[odd](path, input_)

    def run_tasks(items, work):
        strike()
        return tasks_here(items, work)

    if when == "before the plan":
        strike()
    found = told(input_, run_tasks=run_tasks)
    assert SECRET not in found, found[:2000]
    assert "internal error" not in found
    assert (tree(input_ / "theirs"), facts(input_ / "victim")) == before
    evidence("R43", 1, PARTS)


HOSTILE = (
    "../victim/x",
    "..",
    ".",
    "/etc",
    "a/b",
    "a\0b",
    "x" * 249,
    "",
    "a\nb",
    "\x1b[2J",
    "\udcff",
    "٣",
    "9" * 40,
    "-1",
    "__cluster_metadata",
    "a-delete",
    "%2e%2e%2fvictim",
    ".kafkalog",
)
PLACES = {
    "directory": lambda place, name: write(place / "input" / f"topic={name.replace('/', '%2F')}" / "a.parquet"),
    "metadata": lambda place, name: write(
        place / "input/a.parquet", metadata={"kafkalog.topic": name.encode(errors="surrogateescape")}
    ),
    "column": lambda place, name: write(place / "input/a.parquet", topic=pa.array([name, name])),
    "topic id": lambda place, name: write(
        place / "input/a.parquet",
        metadata={"kafkalog.topic": b"orders", "kafkalog.topic_id": name.encode(errors="surrogateescape")},
    ),
    "partition": lambda place, name: write(
        place / "input/a.parquet",
        metadata={"kafkalog.topic": b"orders", "kafkalog.partition": name.encode(errors="surrogateescape")},
    ),
}
NAMED = [
    (where, name)
    for where in PLACES
    for name in HOSTILE
    if (where, name) not in {("directory", "a\0b"), ("column", "\udcff")}  # which cannot be written
]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("where", "name"), NAMED)
def test_import_of_a_topic_with_a_hostile_name_makes_nothing_outside_the_log_directory(input_, where, name, evidence):
    """A name is refused, or is a partition in the log directory; no traceback, nothing beside it."""
    for kind in KINDS:
        (input_ / f"input/good{kind}").unlink()
    PLACES[where](input_, name)
    before = tree(input_)
    before = {path: one for path, one in before.items() if not path.startswith(f"{input_}/new")}
    told(input_, topic=None)
    after = {path: one for path, one in tree(input_).items() if not path.startswith(f"{input_}/new")}
    assert after == before
    assert all(one.rpartition("-")[2].isdecimal() and "/" not in one for one in seen(input_ / "new"))
    evidence("R43", 1, PARTS)


BAD = {
    "cut off": lambda data: data[: len(data) // 2],
    "another's end": lambda data: data[:-8] + b"\xff\xff\xff\x7fPAR1",
    "a long footer": lambda data: data[:-8] + (len(data) - 12).to_bytes(4, "little") + b"PAR1",
    "no end": lambda data: data + b"\0" * 9,
    "empty": lambda _: b"",
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("kind", KINDS)
def test_import_refuses_a_damaged_input(input_, bad, kind, evidence):
    path = input_ / f"input/good{kind}"
    path.write_bytes(BAD[bad](path.read_bytes()))
    if bad == "cut off" and kind == ".ndjson":
        path.write_bytes(path.read_bytes()[:-3])
    for other in KINDS:
        if other != kind:
            (input_ / f"input/good{other}").unlink()
    found = told(input_)
    assert "internal error" not in found
    if not (bad == "empty" and kind == ".ndjson") and not (kind == ".arrow" and bad in ("no end",)):
        assert seen(input_ / "new") == [], found
    evidence("R43", 1, PARTS)


def swapped(name):
    """The log directory, or what an import stages in it, is swapped for another user's link."""

    def swap(place):
        for path in sorted((place / "new").parent.glob(name)):
            path.rename(place / "aside")
            of_another_user(path, place / "victim")
            return

    return swap


SWAPS = {"the log directory": swapped("new"), "its lock": lambda place: lock_as_link(place / "new/.lock", place)}


def lock_as_link(path, place):
    path.unlink(missing_ok=True)
    of_another_user(path, place / "victim/lock")


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("call", [0, 1])
def test_import_writes_nothing_elsewhere_if_the_log_directory_is_swapped_before_its_tasks(input_, swap, call, evidence):
    before, calls = facts(input_ / "victim"), []

    def run_tasks(items, work):
        if len(calls) == call:
            SWAPS[swap](input_)
        calls.append(call)
        return tasks_here(items, work)

    told(input_, run_tasks=run_tasks)
    assert facts(input_ / "victim") == before
    evidence("R43", 1, PARTS)


OUTPUTS = {
    "the output": lambda place: (place / "exported").rename(place / "aside") and of_another_user(place / "exported", place / "victim"),
    "its .kafkalog": lambda place: (place / "exported/.kafkalog").rename(place / "aside") and of_another_user(place / "exported/.kafkalog", place / "victim"),
    "the run's directory": lambda place: [
        (path.rename(place / "aside"), of_another_user(path, place / "victim"))
        for path in (place / "exported/.kafkalog").iterdir() if path.is_dir()
    ],
    "a topic's directory": lambda place: of_another_user(place / "exported/topic=orders", place / "victim"),
}  # fmt: skip


@pytest.mark.parametrize("swap", OUTPUTS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_export_writes_nothing_elsewhere_if_its_output_directory_is_swapped(place, swap, when, evidence):
    """By whoever may write beside it: what lies elsewhere stays."""
    (place / "logs/orders-0").mkdir(parents=True)
    (place / "logs/orders-0" / f"{0:020d}.log").write_bytes(batch_v2([R(0, BASE_TIME_MS, b"k", b"v")]))
    before = facts(place / "victim")

    def run_tasks(items, work):
        if when == "before":
            OUTPUTS[swap](place)
        found = tasks_here(items, work)
        if when == "after":
            OUTPUTS[swap](place)
        return found

    with suppress(KafkalogError, OSError):
        export(place / "logs", place / "exported", run_tasks=run_tasks)
    assert facts(place / "victim") == before
    evidence("R43", 1, PARTS)


PARTS = 2 * len(KINDS) * len(ODD) + len(NAMED) + len(BAD) * len(KINDS) + 2 * len(SWAPS) + 2 * len(OUTPUTS)
"""The tests that tell of R43."""

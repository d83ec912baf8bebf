"""Links, odd files and swaps below a log directory that Spark's tasks read: nothing outside comes into a result.

Each attack is there when the driver plans, or comes between the plan and the tasks. What a link leads to are whole logs
whose records hold a secret, so a reader that followed it would have it in its rows, files or report. Spark's place is
taken by a loop through which everything is pickled; `test_commands_of_spark_read_and_change_nothing_behind_links` has some attacks through Spark itself.
"""

# ruff: noqa: F811 - `place` is a fixture

import os
import shutil

import pytest

pytest.importorskip("pyspark", reason="the extra `spark` is not installed: nothing of Spark is tested")

from tests.attacks.test_links import PARTITION, facts, place  # noqa: F401
from tests.attacks.test_odd_files_read import STEM, at_most, device, of_another_user, socket_at, tree
from tests.spark.exporting import FileFormat, export, tasks_here
from tests.spark.querying import kafkalog
from tests.spark.spark_reading import rows_of, tasks
from tests.support.logs import BASE_TIME_MS, R, batch_v2
from tests.support.product import KafkalogError, RealFilesystem
from tests.support.product_spark import TABLES, Catalog, OnDamage, Reading

SECRET = "0c4nary5ecret"
STEMS = ("00000000000000000000", "00000000000000000057", STEM)
MOST_SECONDS = 600


@pytest.fixture
def logs(place):
    """The place with a log directory `theirs` of the same names, all of whose records hold the secret."""
    theirs = place / "theirs" / PARTITION
    theirs.mkdir(parents=True)
    ends = [57, 115, 140]
    for stem, end in zip(STEMS, ends, strict=True):
        records = [R(n, BASE_TIME_MS + n, SECRET.encode(), SECRET.encode() * 9) for n in range(int(stem), end)]
        (theirs / f"{stem}.log").write_bytes(batch_v2(records))
        (theirs / f"{stem}.index").write_bytes(SECRET.encode() * 8)
        (theirs / f"{stem}.timeindex").write_bytes(SECRET.encode() * 12)
        (theirs / f"{stem}.snapshot").write_bytes(SECRET.encode() * 9)
    (theirs / "leader-epoch-checkpoint").write_text(f"0\n{SECRET}\n{SECRET}\n")
    (theirs / "partition.metadata").write_text(f"version: 0\ntopic_id: {SECRET}\n")
    (theirs / "secret").write_bytes((theirs / f"{STEM}.log").read_bytes())
    return place


# -- what is planted; each gets the place


def log_file(suffix=".log", stem=STEM):
    return lambda place: place / "ld" / PARTITION / f"{stem}{suffix}"


def instead(at, plant):
    """Something else takes the place of a file."""

    def attack(place):
        path = at(place)
        path.unlink(missing_ok=True)
        plant(path, place)

    return attack


def others_link(path, place):
    """Another user's link to the file of this name in `theirs`, which is root's."""
    of_another_user(path, place / "theirs" / PARTITION / path.name)


def own_link_to_secret(path, place):
    """As out of an archive that root has unpacked; the name of the target tells."""
    path.symlink_to(place / "theirs" / PARTITION / "secret")


def swapped_partition(place):
    (place / "ld" / PARTITION).rename(place / "aside")
    of_another_user(place / "ld" / PARTITION, place / "theirs" / PARTITION)


def partition_in_a_link(place):
    """A partition more, which is another user's link."""
    of_another_user(place / "ld" / "more-0", place / "theirs" / PARTITION)


def named(name):
    return lambda place: place / "ld" / name


ATTACKS = {
    "the partition is another user's link": swapped_partition,
    "a partition more is another user's link": partition_in_a_link,
    "the first segment is another user's link": instead(log_file(stem=STEMS[0]), others_link),
    "the last segment is another user's link": instead(log_file(), others_link),
    "a segment is a link to a secret": instead(log_file(), own_link_to_secret),
    "an index is another user's link": instead(log_file(".index"), others_link),
    "a time index is another user's link": instead(log_file(".timeindex"), others_link),
    "a snapshot is another user's link": instead(log_file(".snapshot"), others_link),
    "the epochs are a link": instead(named(f"{PARTITION}/leader-epoch-checkpoint"), others_link),
    "the topic's id is a link": instead(named(f"{PARTITION}/partition.metadata"), others_link),
    "a checkpoint is a link": instead(named("replication-offset-checkpoint"), own_link_to_secret),
    "meta.properties is a link": instead(named("meta.properties"), own_link_to_secret),
    "the lock is a link": instead(named(".lock"), own_link_to_secret),
    ".kafkalog is a link": instead(named(f"{PARTITION}/.kafkalog"), lambda path, p: path.symlink_to(p / "theirs")),
    "a record of imports is a link": instead(named(".kafkalog-import"), own_link_to_secret),
    "a segment is a pipe": instead(log_file(), lambda path, _: os.mkfifo(path)),
    "a segment is a socket": instead(log_file(), lambda path, _: socket_at(path)),
    "a segment is a device": instead(log_file(), lambda path, _: device(path)),
    "a segment is a directory": instead(log_file(), lambda path, _: path.mkdir()),
    "an index is a pipe": instead(log_file(".index"), lambda path, _: os.mkfifo(path)),
    "a snapshot is a pipe": instead(log_file(".snapshot"), lambda path, _: os.mkfifo(path)),
    "the lock is a pipe": instead(named(".lock"), lambda path, _: os.mkfifo(path)),
    "the partition is a pipe": lambda place: (
        (place / "ld" / PARTITION).rename(place / "aside"),
        os.mkfifo(place / "ld" / PARTITION),
    ),
}


# -- the readers; each gets the place, and what is to happen between its plan and its tasks


def of_source(mode):
    def read(place, between):
        reader, parts = tasks(place / "ld", mode=mode, includeHeaders="true")
        between()
        return repr(rows_of(reader, parts).to_pylist())

    return read


def of_tables(place, between):
    """All tables, as their tasks read them; damage is told too."""
    catalog = Catalog(RealFilesystem(), [str(place / "ld")], "", Reading())
    found = [view for name in TABLES if (view := catalog.find_table(name)) is not None]
    between()
    damage, rows = [], []
    for view in found:
        rows += view.table.rows(RealFilesystem(), [one.path for one in view.partitions], damage.append)
    return "".join(map(str, [*rows, *damage]))


def in_between(between):
    def run_tasks(items, work):
        between()
        return tasks_here(items, work)

    return run_tasks


def of_export(**request):
    def read(place, between):
        output = place / "exported"
        result = export(
            place / "ld", output, run_tasks=in_between(between), format=FileFormat.JSON, codec="none", **request
        )
        written = [path.read_bytes().decode() for path in output.rglob("*") if path.is_file()]
        return repr(result) + "".join(written)

    return read


READERS = {
    "source failfast": of_source("failfast"),
    "source permissive": of_source("permissive"),
    "source dropmalformed": of_source("dropmalformed"),
    "tables": of_tables,
    "export": of_export(),
    "export dropmalformed": of_export(mode=OnDamage.DROPMALFORMED),
}


def nothing():
    """No swap."""


def told(read, place, between=nothing):
    """What a reader tells: its result, or the message of its error."""
    with at_most(MOST_SECONDS):
        try:
            return read(place, between)
        except KafkalogError as error:
            return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("reader", READERS)
def test_results_contain_the_secret_if_its_directory_is_named(logs, reader):
    """Where `theirs` is what the operator names, its records are in each result, so the attacks would show."""
    shutil.rmtree(logs / "ld")
    (logs / "theirs").rename(logs / "ld")
    found = told(READERS[reader], logs)
    assert SECRET in found or reader == "tables", found[:500]


@pytest.mark.exhaustive
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("when", ["before the plan", "before the tasks"])
def test_results_of_spark_contain_nothing_from_behind_links(logs, attack, reader, when, evidence):
    before = tree(logs / "theirs"), facts(logs / "victim")
    inside = []

    def strike():
        ATTACKS[attack](logs)
        inside.append(tree(logs / "ld"))

    if when == "before the plan":
        strike()
        found = told(READERS[reader], logs)
    else:
        found = told(READERS[reader], logs, strike)
        if not inside:
            pytest.skip("no task is needed")
    assert SECRET not in found, found
    assert (tree(logs / "theirs"), facts(logs / "victim")) == before
    assert [tree(logs / "ld")] == inside
    evidence("R41", 1, 2 * len(READERS) * len(ATTACKS))


THROUGH_SPARK = {
    "sql": ("sql", "LOGS", "select * from `crash-torn`", "--format", "json", "--mode", "permissive"),
    "sql segments": ("sql", "LOGS", "select * from kafkalog.segments", "--format", "json", "--mode", "permissive"),
    "export": (
        "export",
        "LOGS",
        "--output",
        "OUT",
        "--format",
        "ndjson",
        "--codec",
        "none",
        "--mode",
        "dropmalformed",
        "--engine",
        "spark",
    ),
    "stats": ("stats", "LOGS", "--engine", "spark", "--format", "json"),
}


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.exhaustive
@pytest.mark.parametrize("command", THROUGH_SPARK)
def test_commands_of_spark_read_and_change_nothing_behind_links(spark, logs, command):
    """The commands themselves, with all links at once."""
    del spark
    partition_in_a_link(logs)
    instead(log_file(stem=STEMS[0]), others_link)(logs)
    instead(log_file(), own_link_to_secret)(logs)
    instead(log_file(".snapshot"), others_link)(logs)
    before = tree(logs / "theirs"), tree(logs / "ld"), facts(logs / "victim")
    words = [word.replace("LOGS", f"{logs}/ld").replace("OUT", f"{logs}/exported") for word in THROUGH_SPARK[command]]
    with at_most(10 * MOST_SECONDS):
        code, out, err = kafkalog(*words)
    assert "internal error" not in err
    assert "Traceback" not in err
    written = [path.read_bytes().decode() for path in (logs / "exported").rglob("*") if path.is_file()]
    assert SECRET not in "".join([out, err, *written])
    assert out or code, err
    assert (tree(logs / "theirs"), tree(logs / "ld"), facts(logs / "victim")) == before

"""A partition that the library makes from nothing: what the command makes, taken away again with what goes wrong."""

import pytest

import kafkalog_cli as kl
from tests.library.test_library_append import ARGUMENTS, GIVEN, files
from tests.support.commands import kafkalog, tree
from tests.support.locks import held_by_another_process
from tests.support.product import BadInput, KafkalogError, Locked, Refused, UsageError

pa = pytest.importorskip("pyarrow")

ID = "hUJsHtOTRCqy_JJtJJf3_A"
DATA = {"key": [b"k", None], "value": [b"a", b"b"]}


@pytest.fixture
def root(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    return tmp_path / "logs"


def append(path, data=DATA, topic_id=ID, **options):
    log = kl.new_partition(path, topic_id)
    return log, log.append(pa.table(data), **{**GIVEN, **options})


def test_new_partition_makes_the_files_of_the_command(root, tmp_path):
    log, done = append(root / "new-3")
    assert (done.first_offset, done.end_offset, done.records) == (0, 2, 2)
    assert (log.topic, log.partition, log.offsets().end) == ("new", 3, 2)
    assert [row["value"] for part in log.records() for row in part.to_pylist()] == [b"a", b"b"]
    other = tmp_path / "other"
    other.mkdir()
    (other / "meta.properties").write_text((root / "meta.properties").read_text())
    stdin = b'{"key":"k","value":"a"}\n{"value":"b"}\n'
    assert kafkalog("append", other / "new-3", "--topic-id", ID, *ARGUMENTS, stdin=stdin)[0] == 0
    assert files(root / "new-3") == files(other / "new-3")
    assert f"topic_id: {ID}" in (root / "new-3" / "partition.metadata").read_text()
    assert (root / "new-3").stat().st_mode == root.stat().st_mode


def test_a_second_append_to_a_new_partition_continues_it_and_undo_removes_all(root):
    log, first = append(root / "new-0")
    done = log.append(pa.table(DATA), **GIVEN)
    assert (done.first_offset, done.end_offset) == (2, 4)
    for run in (done.run, first.run):
        assert kafkalog("undo", root / "new-0", run)[0] == 0
    assert not (root / "new-0").exists()


def test_without_an_id_a_warning_says_what_a_broker_does(root):
    with pytest.warns(kl.LogWarning, match="stray") as told:
        append(root / "new-0", topic_id=None)
    assert {one.filename for one in told if one.category is kl.LogWarning} == {__file__}
    assert not (root / "new-0" / "partition.metadata").exists()


def test_a_new_partition_exists_only_after_its_first_append(root):
    log = kl.new_partition(root / "new-0", ID)
    for look in (log.offsets, lambda: next(log.records()), lambda: next(log.batches())):
        with pytest.raises(KafkalogError):
            look()
    assert not (root / "new-0").exists()


@pytest.mark.parametrize(
    ("error", "data", "options"),
    [
        (Refused, DATA, {"single_replica": False}),
        (UsageError, {"valu": [b""]}, {}),
        (BadInput, {"value": [bytes(2_000_000)]}, {"config": {}}),
        (BadInput, DATA, {"config": {"cleanup.policy": "compact"}}),
        (UsageError, DATA, {"codec": "zip"}),
    ],
)
def test_a_failed_first_append_leaves_no_partition(root, error, data, options):
    before = tree(root)
    with pytest.raises(error):
        append(root / "new-0", data, **options)
    assert tree(root) == before
    assert not (root / "new-0").exists()
    assert append(root / "new-0")[1].records == 2


def values(root):
    return [value for log in kl.open(root) for part in log.records() for value in part["value"].to_pylist()]


def test_of_two_that_make_one_the_second_touches_nothing(root):
    first, second = (kl.new_partition(root / "new-0", ID) for _ in range(2))
    first.append(pa.table({"value": [b"first"]}), **GIVEN)
    before = tree(root)
    with pytest.raises(Refused, match="another run has made it"):
        second.append(pa.table({"value": [b"second"]}), **GIVEN)
    assert tree(root) == before
    assert values(root) == [b"first"]


def test_a_new_partition_waits_for_another_run_that_makes_it(root):
    log = kl.new_partition(root / "new-0", ID)
    (root / "new-0" / ".kafkalog").mkdir(parents=True)
    lock = root / "new-0" / ".kafkalog" / "lock"
    lock.touch()
    with held_by_another_process(lock, "LOCK_EX", 1), pytest.raises(Locked):
        log.append(pa.table(DATA), **GIVEN)
    assert [path.name for path in (root / "new-0").rglob("*")] == [".kafkalog", "lock"]
    assert log.append(pa.table(DATA), **GIVEN).records == 2


@pytest.mark.parametrize("path", ["new", "new-x", "nowhere/new-0", "new-0"])
def test_new_partition_refuses_paths_that_cannot_be_partitions(root, path):
    append(root / "new-0")
    with pytest.raises(UsageError, match="cannot be made"):
        kl.new_partition(root / path, ID)


@pytest.mark.parametrize("topic_id", ["", "x", "AAAAAAAAAAAAAAAAAAAAAA"])
def test_new_partition_refuses_texts_that_are_no_topic_id(root, topic_id):
    with pytest.raises(UsageError, match="is not a topic id"):
        kl.new_partition(root / "new-0", topic_id)

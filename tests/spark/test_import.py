"""Imported files: the records that were exported, for every codec, null, empty and header; offsets, epochs, refusals."""

import hashlib
import shutil
import warnings
from array import array

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kafkalog_cli as kl
from tests.spark.exporting import FileFormat, export, pa, pq, tasks_here
from tests.spark.importing import NOW_MS, import_into, new_log_dir, records, seen
from tests.spark.test_export import CODECS
from tests.spark.test_export import records as odd_records
from tests.spark.test_spark_rows import corpus_partitions, log_dir
from tests.support.effort import DIAL
from tests.support.logs import BASE_TIME_MS, LOG_APPEND_TIME, TRANSACTIONAL, R, batch_v2, end_marker
from tests.support.product import (
    BadInput,
    ExitCode,
    NothingSelected,
    NotSame,
    PathNotFound,
    Refused,
    UsageError,
    is_staged,
)
from tests.support.product_spark import OnDamage, lower_limit, replace_point
from tests.support.strategies import contents, headers

ID, OTHER_ID = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"


def batches_of(partition):
    """What the headers of batches say: first and last offset, codec, epoch."""
    found = [part.to_pylist() for part in kl.open_partition(partition).batches()]
    return [
        (b["base_offset"], b["last_offset"], b["attributes"] & 7, b["leader_epoch"]) for part in found for b in part
    ]


@pytest.mark.exhaustive
@pytest.mark.parametrize("file_format", list(FileFormat))
@pytest.mark.parametrize("codec", CODECS)
def test_import_of_an_export_has_the_same_records_and_codec(tmp_path, codec, file_format):
    """Null and empty keys and values, headers of all kinds, gaps between offsets; the codec too."""
    number = CODECS.index(codec)
    data = batch_v2(odd_records(), number) + batch_v2([R(7, 5, b"a", None), R(9, -1, None, b"")], number)
    folder = log_dir(tmp_path / "log", data)
    export(folder, tmp_path / "out", format=file_format, codec=file_format.codecs[0])
    new = new_log_dir(tmp_path / "new")
    result = import_into(new, tmp_path / "out", prove=True)
    assert seen(new) == ["orders-0"]
    assert records(new / "orders-0") == records(folder / "orders-0")
    assert [row["offset"] for row in records(new / "orders-0")] == [0, 1, 2, 7, 9]
    assert {one[2] for one in batches_of(new / "orders-0")} == {number}
    (done,) = result.done
    assert (done.built.records, done.built.end_offset, done.proof.records) == (5, 10, 5)
    assert result.exit_code is ExitCode.OK


BATCHES = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.sampled_from([0, LOG_APPEND_TIME]),
        st.integers(0, 3),
        st.lists(
            st.tuples(st.integers(0, 3), st.integers(-1, 1 << 45), contents, contents, headers), min_size=1, max_size=6
        ),
    ),
    min_size=1,
    max_size=8,
)


@given(BATCHES, st.integers(0, 1 << 40), st.sampled_from([100, 16_384]))
@settings(max_examples=DIAL.part(60), deadline=None, suppress_health_check=list(HealthCheck))
def test_import_of_an_export_of_random_records_has_the_same_records(tmp_path_factory, made, first, batch_bytes):
    """Of batches of all codecs, by either clock, with gaps: what goes in by columns is what comes out."""
    tmp_path = tmp_path_factory.mktemp("any")
    data, offset = b"", first
    for codec, bits, gap, rows in made:
        offset += gap
        found = []
        for skip, timestamp, key, value, pairs in rows:
            offset += skip
            found.append(R(offset, timestamp, key, value, pairs))
            offset += 1
        data += batch_v2(found, codec, bits=bits, epoch=len(data))
    folder = log_dir(tmp_path / "log", data, base=first)
    export(folder, tmp_path / "out")
    new = new_log_dir(tmp_path / "new")
    result = import_into(new, tmp_path / "out", prove=True, batch_bytes=batch_bytes)
    assert records(new / "orders-0") == records(folder / "orders-0")
    assert result.done[0].proof.records == sum(len(rows) for *_, rows in made)
    shutil.rmtree(tmp_path)


CORE = ("offset", "timestamp", "key", "value", "headers")


def readable(partition):
    """What can be read of a log, and whether its offsets ascend, as a broker wants it."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kl.LogWarning)
        for part in kl.open_partition(partition).records(columns=CORE, on_damage=lambda _: None):
            found += part.set_column(1, "timestamp", part.column("timestamp").cast(pa.int64())).to_pylist()
    offsets = [row["offset"] for row in found]
    return found, offsets == sorted(set(offsets))


@pytest.mark.full
def test_import_of_an_export_of_the_corpus_has_the_same_records(corpus, tmp_path):
    """By the day too, so that several files of a partition overlap; every third log."""
    (tmp_path / "log").mkdir()
    (tmp_path / "odd").mkdir()
    wanted = {}
    for number, folder in enumerate(sorted(corpus_partitions(corpus))[::3]):
        if not folder.name.startswith("__cluster_metadata"):
            name = f"t{number:03d}.{folder.name}"
            found, ascends = readable(folder)
            (tmp_path / ("log" if ascends else "odd") / name).symlink_to(folder)
            if ascends and found:
                wanted[name] = found
    assert len(wanted) > 20
    for by_day in (False, True):
        out, new = tmp_path / f"out{by_day}", new_log_dir(tmp_path / f"new{by_day}")
        export(tmp_path / "log", out, mode=OnDamage.DROPMALFORMED, by_day=by_day)
        import_into(new, out, prove=True)
        assert seen(new) == sorted(wanted)
        for name, found in wanted.items():
            assert records(new / name, CORE) == found, name
    for name in sorted(path.name for path in (tmp_path / "odd").iterdir())[:1]:
        export(tmp_path / "odd" / name, tmp_path / "odd-out", mode=OnDamage.DROPMALFORMED)
        with pytest.raises(BadInput, match=r"record \d+: offset \d+ is too low: the log already ends at \d+"):
            import_into(new, tmp_path / "odd-out", topic="odd")


def test_a_topic_that_comes_back_keeps_its_epochs(tmp_path):
    """Under another id, or none, its leaders begin at 0: a consumer would take larger epochs for a log that was cut."""
    data = b"".join(batch_v2([R(i, BASE_TIME_MS, b"k", b"v")], epoch=epoch) for i, epoch in enumerate([2, 2, 5]))
    folder = log_dir(tmp_path / "log", data)
    (folder / "orders-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {ID}")
    export(folder, tmp_path / "out")
    for name, ids, epochs, wanted in (
        ("same", {}, [2, 2, 5], "0\n2\n2 0\n5 2\n"),
        ("given", {"orders": ID}, [2, 2, 5], "0\n2\n2 0\n5 2\n"),
        ("other", {"": OTHER_ID}, [0], "0\n1\n0 0\n"),
    ):
        new = new_log_dir(tmp_path / name)
        result = import_into(new, tmp_path / "out", topic_ids=ids)
        wanted_id = ids.get("", ID)
        assert (new / "orders-0" / "partition.metadata").read_text() == f"version: 0\ntopic_id: {wanted_id}"
        assert [epoch for *_, epoch in batches_of(new / "orders-0")][: len(epochs)] == epochs[:2][:1] + epochs[2:]
        assert (new / "orders-0" / "leader-epoch-checkpoint").read_text() == wanted
        assert not result.notes


def test_import_without_a_topic_id_warns_of_what_a_broker_does(tmp_path):
    folder = log_dir(tmp_path / "log", batch_v2([R(3, BASE_TIME_MS)]))
    export(folder, tmp_path / "out")
    new = new_log_dir(tmp_path / "new")
    result = import_into(new, tmp_path / "out")
    assert [note.kind for note in result.notes] == ["no-topic-id"]
    assert "sets its partitions aside as -stray" in result.notes[0].message
    assert not (new / "orders-0" / "partition.metadata").exists()
    assert (new / "orders-0" / f"{3:020d}.log").exists()  # the log starts at its first record


def test_transactions_become_plain_records(tmp_path):
    data = batch_v2(odd_records(), producer=(7, 0, 0), bits=TRANSACTIONAL) + end_marker(3, BASE_TIME_MS, (7, 0), 1)
    data += batch_v2([R(4, BASE_TIME_MS, b"k", b"v")])
    folder = log_dir(tmp_path / "log", data)
    export(folder, tmp_path / "out", with_control=True)
    new = new_log_dir(tmp_path / "new")
    (done,) = import_into(new, tmp_path / "out", prove=True).done
    assert [row["offset"] for row in records(new / "orders-0")] == [0, 1, 2, 4]
    assert (done.built.records, done.built.transactional) == (4, 3)
    plain = [part.to_pylist() for part in kl.open_partition(new / "orders-0").batches()]
    assert {one["producer_id"] for part in plain for one in part} == {-1}


def test_segments_roll_as_the_topic_wants(tmp_path):
    data = b"".join(batch_v2([R(i, BASE_TIME_MS, b"k", b"v" * 400)]) for i in range(50))
    folder = log_dir(tmp_path / "log", data)
    export(folder, tmp_path / "out")
    new = new_log_dir(tmp_path / "new")
    (done,) = import_into(new, tmp_path / "out", config={"segment.bytes": "5000"}, batch_bytes=1, codec="none").done
    logs = sorted(path.name for path in (new / "orders-0").glob("*.log"))
    assert len(logs) == done.built.segments > 4
    assert records(new / "orders-0") == records(folder / "orders-0")


def test_import_compresses_records_anew_at_new_offsets(tmp_path):
    folder = log_dir(tmp_path / "log", batch_v2([R(5, 1, b"a"), R(9, 2, b"b")], 1))
    export(folder, tmp_path / "out")
    new = new_log_dir(tmp_path / "new")
    (done,) = import_into(new, tmp_path / "out", new_offsets=True, codec="zstd", prove=True).done
    assert batches_of(new / "orders-0") == [(0, 1, 4, 0)]
    assert [row["key"] for row in records(new / "orders-0")] == [b"a", b"b"]
    assert done.proof.records == 2


def test_digests_of_records_differ_exactly_where_the_records_differ(tmp_path):
    """Equal records have equal digests, in whatever batches; a null is no empty one, a key no value."""
    digests = {}
    variants = {
        "as it is": [R(0, 1, b"a", b"")], "null": [R(0, 1, b"a", None)], "moved": [R(0, 1, b"", b"a")],
        "header": [R(0, 1, b"a", b"", ((b"h", None),))], "empty header": [R(0, 1, b"a", b"", ((b"h", b""),))],
        "later": [R(0, 2, b"a", b"")], "further": [R(1, 1, b"a", b"")], "none": [R(0, -1, b"a", b"")],
    }  # fmt: skip
    for name, found in variants.items():
        folder = log_dir(tmp_path / f"{name}-log", batch_v2(found))
        export(folder, tmp_path / f"{name}-out")
        new = new_log_dir(tmp_path / f"{name}-new")
        digests[name] = import_into(new, tmp_path / f"{name}-out", prove=True).done[0].proof.digest
    assert len(set(digests.values())) == len(variants)
    assert all(len(bytes.fromhex(one)) == hashlib.sha256().digest_size for one in digests.values())


@pytest.mark.exhaustive
@pytest.mark.parametrize("wrong", ["value", "lost", "more"])
def test_import_that_proves_a_difference_makes_no_partition(tmp_path, monkeypatch, wrong):
    folder = log_dir(tmp_path / "log", batch_v2([R(i, 1, b"k%d" % i, b"v") for i in range(5)]))
    export(folder, tmp_path / "out")

    def another(build):
        return lambda fs, path, parts, *more: build(fs, path, changed(parts), *more)

    def changed(parts):
        (records,) = parts
        if wrong == "value":
            records.buffer[records.columns.value_position[3]] = ord("w")
        elif wrong == "lost":
            records = records.part(0, 4)
        else:
            last = records.chosen(memoryview(array("q", [4])))
            last.columns.offset[0] = 9
            return [records, last]
        return [records]

    replace_point(monkeypatch, "build of an imported partition", another)
    new = new_log_dir(tmp_path / "new")
    message = {
        "value": "orders-0: record 4 was read back with another value",
        "lost": "4 records were read back, 5 or more were written",
        "more": "more than the 5 records written were read back",
    }[wrong]
    with pytest.raises(NotSame, match=message) as caught:
        import_into(new, tmp_path / "out", prove=True)
    assert caught.value.exit_code is ExitCode.CORRUPTION
    assert seen(new) == []
    import_into(new, tmp_path / "out")
    assert seen(new) == ["orders-0"]


def test_import_proves_more_rows_than_it_compares_at_once(tmp_path, monkeypatch):
    lower_limit(monkeypatch, "rows that a proof compares at once", 7)
    data = b"".join(batch_v2([R(3 * i + j, BASE_TIME_MS, b"k", b"v" * j) for j in range(3)]) for i in range(20))
    folder = log_dir(tmp_path / "log", data)
    export(folder, tmp_path / "out")
    new = new_log_dir(tmp_path / "new")
    assert import_into(new, tmp_path / "out", prove=True, batch_bytes=300).done[0].proof.records == 60


def test_import_refuses_existing_partitions_and_unreadable_inputs(tmp_path):
    folder = log_dir(tmp_path / "log", batch_v2([R(0, BASE_TIME_MS)]))
    export(folder, tmp_path / "out")
    new = new_log_dir(tmp_path / "new")
    import_into(new, tmp_path / "out")
    before = records(new / "orders-0")
    with pytest.raises(Refused, match=r"orders-0: refused: it already exists; `mv -nT "):
        import_into(new, tmp_path / "out", batch_bytes=5)
    assert records(new / "orders-0") == before
    other = new_log_dir(tmp_path / "other")
    with pytest.raises(Refused, match=r"the partition is also in .*/new/orders-0: a broker does not start with both"):
        import_into(other, tmp_path / "out", others=[new])
    (other / f"orders-0.{'a' * 32}-future").mkdir()
    with pytest.raises(Refused, match="a broker was copying this partition here"):
        import_into(other, tmp_path / "out")
    assert seen(other) == [f"orders-0.{'a' * 32}-future"]
    (other / f"orders-0.{'a' * 32}-future").rmdir()
    with pytest.raises(Refused, match="only controllers may change the metadata log"):
        import_into(other, tmp_path / "out", topic="__cluster_metadata")
    with pytest.raises(UsageError, match=r"'a b' is not a topic name"):
        import_into(other, tmp_path / "out", topic="a b")
    with pytest.raises(UsageError, match="the input has no topic x"):
        import_into(other, tmp_path / "out", topic_ids={"x": ID})
    with pytest.raises(PathNotFound, match="nowhere"):
        import_into(tmp_path / "nowhere", tmp_path / "out")
    with pytest.raises(PathNotFound):
        import_into(other, tmp_path / "nothing")
    (tmp_path / "bare").mkdir()
    with pytest.raises(NothingSelected, match="no files of records"):
        import_into(other, tmp_path / "bare")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(BadInput, match=r"bad.parquet: it cannot be read as parquet"):
        import_into(other, tmp_path / "bad.parquet")


def test_import_replaces_an_empty_partition(tmp_path):
    """With its topic id; never one that held a record."""
    folder = log_dir(tmp_path / "log", batch_v2([R(0, BASE_TIME_MS, b"k", b"v")]))
    export(folder, tmp_path / "out")
    new = new_log_dir(tmp_path / "new")
    empty = new / "orders-0"
    empty.mkdir()
    for name in (f"{0:020d}.log", f"{0:020d}.index", f"{0:020d}.timeindex", "leader-epoch-checkpoint"):
        (empty / name).touch()
    (empty / "partition.metadata").write_text(f"version: 0\ntopic_id: {ID}")
    (new / "replication-offset-checkpoint").write_text("0\n2\norders 0 0\nother 1 7\n")
    with pytest.raises(Refused, match="it never held a record: --replace-empty takes its place"):
        import_into(new, tmp_path / "out")
    import_into(new, tmp_path / "out", replace_empty=True)
    assert seen(new) == ["orders-0", "replication-offset-checkpoint"]
    assert records(empty) == records(folder / "orders-0")
    assert ID in (empty / "partition.metadata").read_text()
    assert (new / "replication-offset-checkpoint").read_text() == "0\n1\nother 1 7\n"
    with pytest.raises(Refused, match="moves it out of the log directory"):
        import_into(new, tmp_path / "out", replace_empty=True, batch_bytes=5)


def test_import_warns_of_records_older_than_the_retention(tmp_path):
    folder = log_dir(tmp_path / "log", batch_v2([R(0, NOW_MS - 700_000_000)]))
    (folder / "orders-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {ID}")
    export(folder, tmp_path / "out")
    new = new_log_dir(tmp_path / "new")
    (note,) = import_into(new, tmp_path / "out").notes
    assert note.kind == "retention"
    assert "older than retention.ms=604800000 (Kafka's default, assumed: not every source was read)" in note.message


def test_offsets_that_do_not_ascend(tmp_path):
    """In a file that claims to be of one partition."""
    table = pa.table({"key": [b"a", b"b"], "offset": [5, 5]})
    table = table.replace_schema_metadata({"kafkalog.topic": "t", "kafkalog.partition": "0"})
    pq.write_table(table, tmp_path / "x.parquet")
    new = new_log_dir(tmp_path / "new")
    with pytest.raises(BadInput, match=r"record 2: offset 5 is too low: the log already ends at 6"):
        import_into(new, tmp_path / "x.parquet")
    assert seen(new) == []


def test_an_import_task_that_is_tried_again_adds_no_record_twice(tmp_path):
    """Each try builds its own directory; of a lost one nothing is left, whether it ended or not."""
    for number in range(2):
        folder = log_dir(
            tmp_path / "log", batch_v2([R(i, BASE_TIME_MS, b"k", b"v") for i in range(5)]), partition=number
        )
    export(folder, tmp_path / "out")
    new = new_log_dir(tmp_path / "new")
    staged = set()

    def twice(items, work):
        first = tasks_here(items, work)
        second = tasks_here(items, work)
        staged.update(name for name in seen(new) if is_staged(name))
        assert {one.staged for one in (*first, *second)} == staged
        return second

    import_into(new, tmp_path / "out", run_tasks=twice)
    assert len(staged) == 4
    assert seen(new) == ["orders-0", "orders-1"]
    assert records(new / "orders-1") == records(folder / "orders-1")


def test_a_lost_import_task_that_ends_late_leaves_no_partition(tmp_path):
    """The next import removes what it built when the driver was gone."""
    folder = log_dir(tmp_path / "log", batch_v2([R(0, BASE_TIME_MS, b"k", b"v")]))
    export(folder, tmp_path / "out")
    new = new_log_dir(tmp_path / "new")

    def killed(items, work):
        tasks_here(items, work)
        shutil.copytree(new, tmp_path / "killed")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_into(new, tmp_path / "out", run_tasks=killed)
    assert seen(new) == []
    assert len(seen(tmp_path / "killed")) == 1
    import_into(tmp_path / "killed", tmp_path / "out", topic="other")
    assert seen(tmp_path / "killed") == ["other-0"]

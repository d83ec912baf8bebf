"""What an import decides exactly at a limit: numbers, counts, offsets that two files share, rows held in memory."""

import hashlib
import os
import tempfile
from types import SimpleNamespace

import pytest

pa = pytest.importorskip("pyarrow")

from kafkalog_cli.disk.fs import RealFilesystem  # noqa: E402
from kafkalog_cli.errors import BadInput, UsageError  # noqa: E402
from kafkalog_cli.format.compression import Codec  # noqa: E402
from kafkalog_cli.ops.engine import JobWatch  # noqa: E402
from kafkalog_cli.ops.export_request import FileFormat  # noqa: E402
from kafkalog_cli.ops.importing import job, planning, scattering, sources, taking  # noqa: E402
from kafkalog_cli.ops.importing.planning import Job, Planner, jobs_of_files  # noqa: E402
from kafkalog_cli.ops.importing.scattering import Places, Scatter, in_offset_order  # noqa: E402
from kafkalog_cli.ops.importing.sources import ImportRequest, InputFile, input_files  # noqa: E402

FS = RealFilesystem()
MOST_PARTITION = 2**31 - 1
"""Kafka's partition numbers are int32."""


def file(path="f", **facts):
    return InputFile(path, FileFormat.ARROW, 0, **facts)


# -- the request and the plan


def test_how_many_partitions_a_topic_may_have():
    for number in (None, 1, 1 << 20):
        ImportRequest(partitions=number).check()
    for number in (-1, 0, (1 << 20) + 1):
        with pytest.raises(UsageError):
            ImportRequest(partitions=number).check()


def test_an_id_without_a_topic_is_the_only_one():
    ImportRequest(topic_ids={"": "x"}).check()
    ImportRequest(topic_ids={"a": "x", "b": "y"}).check()
    with pytest.raises(UsageError):
        ImportRequest(topic_ids={"": "x", "b": "y"}).check()


def test_an_id_without_a_topic_needs_an_input_of_one_topic():
    def ids(*topics):
        source = SimpleNamespace(metadata=lambda _: None)
        planner = Planner(FS, "/logs", ImportRequest(topic_ids={"": "x"}), source, None, 0)
        return planner.topic_ids([Job(topic, 0, ()) for topic in topics], {})

    assert {topic: known.topic_id for topic, known in ids("a", "a").items()} == {"a": "x"}
    with pytest.raises(UsageError):
        ids("a", "b")


def test_offsets_are_kept_where_all_files_have_them():
    with_offsets, without = file(columns=("offset",)), file(columns=("key",))
    assert ImportRequest().keeps_offsets([with_offsets])
    assert ImportRequest().keeps_offsets([with_offsets, with_offsets])
    assert not ImportRequest().keeps_offsets([without])
    with pytest.raises(UsageError):
        ImportRequest().keeps_offsets([with_offsets, without])


def test_a_file_without_rows_has_a_known_number_of_them():
    assert Job("t", 0, (file(rows=0), file(rows=3))).rows == 3
    assert Job("t", 0, (file(rows=-1), file(rows=3))).rows == -1


def test_a_given_topic_is_for_files_of_one_topic():
    def named(*topics):
        files = [file(topic=topic, partition=0) for topic in topics]
        return jobs_of_files(files, ImportRequest(topic="new"))

    assert [(one.topic, len(one.files)) for one in named("a", "a")] == [("new", 2)]
    with pytest.raises(UsageError):
        named("a", "b")


# -- the input


@pytest.mark.parametrize(("depth", "is_taken"), [(15, True), (16, True), (17, False)])
def test_how_deep_directories_may_be_nested(tmp_path, depth, is_taken):
    folder = tmp_path / "in" / "/".join(["d"] * depth)
    folder.mkdir(parents=True)
    (folder / "a.ndjson").write_bytes(b"")
    if is_taken:
        assert [found.path for found in input_files(FS, [str(tmp_path / "in")])] == [str(folder / "a.ndjson")]
    else:
        with pytest.raises(BadInput):
            input_files(FS, [str(tmp_path / "in")])


def test_a_partition_in_metadata_is_a_number_of_at_most_ten_digits():
    assert sources._partition_of("f", b"%d" % MOST_PARTITION) == MOST_PARTITION
    for number in (b"", b"-1", b"12345678901"):
        with pytest.raises(BadInput):
            sources._partition_of("f", number)


def test_a_column_may_be_there_once():
    taking.check_types(pa.schema([("key", pa.binary()), ("value", pa.binary())]))
    with pytest.raises(UsageError):
        taking.check_types(pa.schema([("key", pa.binary()), ("key", pa.binary())]))


@pytest.mark.parametrize(("column", "most"), [("offset", 2**63 - 2), ("codec", max(Codec))])
def test_the_largest_numbers_of_a_record(column, most):
    taking.taken(pa.record_batch({column: pa.array([None, most], pa.int64())}), "f")
    with pytest.raises(BadInput):
        taking.taken(pa.record_batch({column: pa.array([most + 1], pa.int64())}), "f")


def test_lines_become_a_part_when_they_have_more_bytes_than_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(taking, "_BYTES", 10)
    path = tmp_path / "in.ndjson"
    for sizes, parts in (([5, 5, 1, 2], [3, 1]), ([10, 1], [2]), ([11, 1], [1, 1])):
        path.write_bytes(b"".join(b'{"value":"%s"}\n' % (b"v" * size) for size in sizes))
        assert [part.num_rows for part in taking.line_batches(str(path))] == parts


# -- rows by partition


def scattered(tmp_path, parts, **places):
    """The rows of each file that is written: (partition, values)."""
    with_topic, folder = Places(topic="t", **places), tempfile.mkdtemp(dir=tmp_path)
    scatter = Scatter(FS, folder, FS.attributes(folder), with_topic, 0, "in")
    read = ((part.partition, pa.ipc.open_file(part.file.path).read_all()) for part in scatter.run(parts))
    return [(number, [value.decode() for value in table.column("value").to_pylist()]) for number, table in read]


def rows(*partitions, keys=None):
    values = [b"%d" % at for at in range(len(partitions))]
    columns = {"value": pa.array(values, pa.binary()), "partition": pa.array(partitions, pa.int64())}
    return pa.record_batch(columns | ({} if keys is None else {"key": pa.array(keys, pa.binary())}))


def test_a_row_may_be_for_any_partition_number(tmp_path):
    for number in (0, 1, MOST_PARTITION):
        assert scattered(tmp_path, [rows(number)]) == [(number, ["0"])]
    assert scattered(tmp_path, [rows(3, 0, 3)]) == [(0, ["1"]), (3, ["0", "2"])]
    for numbers in ((-1,), (-1, 0), (MOST_PARTITION + 1,), (0, MOST_PARTITION + 1)):
        with pytest.raises(BadInput):
            scattered(tmp_path, [rows(*numbers)])


def test_rows_of_two_topics_are_kept_apart_in_each_partition(tmp_path):
    part = rows(0, 1, 0).append_column("topic", pa.array(["a", "a", "b"]))
    scatter = Scatter(FS, str(tmp_path), FS.attributes(str(tmp_path)), Places(), 0, "in")
    assert [(one.topic, one.partition, one.file.rows) for one in scatter.run([part])] == [
        ("a", 0, 1),
        ("a", 1, 1),
        ("b", 0, 1),
    ]


def test_a_column_chooses_any_of_the_partitions_of_a_topic(tmp_path):
    """As ProducerRecord.partition: it wins over the key, and null leaves the choice to the key."""
    chosen = rows(0, 1, 2, 2, keys=[b"k"] * 4)
    found = scattered(tmp_path, [chosen], partitions=3, is_column_first=True)
    assert found == [(0, ["0"]), (1, ["1"]), (2, ["2", "3"])]
    with pytest.raises(BadInput):
        scattered(tmp_path, [rows(0, 3, keys=[b"k"] * 2)], partitions=3, is_column_first=True)


def test_rows_are_written_as_soon_as_as_many_bytes_as_the_limit_are_held(tmp_path, monkeypatch):
    part = rows(0, 0)
    for limit, files in ((part.nbytes, 3), (part.nbytes + 1, 2), (2 * part.nbytes, 2), (2 * part.nbytes + 1, 1)):
        monkeypatch.setattr(scattering, "HELD_BYTES", limit)
        assert len(scattered(tmp_path, [part] * 3)) == files


# -- rows in the order of offsets


def offsets(tmp_path, *files, rows_of_a_part=2):
    """The order of the rows of files with these offsets: (offset, number of the file)."""
    described = []
    for number, of_file in enumerate(files):
        path = str(tmp_path / f"{number}.arrow")
        table = pa.table({"offset": pa.array(of_file, pa.int64()), "value": [b"%d" % number] * len(of_file)})
        with pa.ipc.new_file(path, table.schema) as out:
            out.write_table(table, rows_of_a_part)
        ends = (min(of_file), max(of_file))
        described.append(file(path, rows=len(of_file), columns=("offset", "value"), offsets=ends))
    parts = [part for part in in_offset_order(described, ("offset", "value")) if part.num_rows]
    table = pa.Table.from_batches(parts)
    return list(zip(table.column("offset").to_pylist(), map(int, table.column("value").to_pylist()), strict=True))


def test_files_are_merged_by_offset_with_the_rows_of_the_first_file_first(tmp_path):
    given = ([3, 4, 4, 4, 7], [5, 6], [7, 7, 9], [0, 1, 2])
    assert offsets(tmp_path, *given) == sorted((one, at) for at, of_file in enumerate(given) for one in of_file)


def test_only_files_that_share_an_offset_need_sorted_rows(tmp_path):
    assert offsets(tmp_path, [5, 3], [6, 7]) == [(5, 0), (3, 0), (6, 1), (7, 1)]
    for given in (([5, 3], [5, 7]), ([1, 2, 5, 3], [4, 7]), ([1, 5, 3, 6], [4, 7])):
        with pytest.raises(BadInput):
            offsets(tmp_path, *given)


# -- the tasks and the proof


def test_several_processes_work_where_there_is_enough_for_two(monkeypatch):
    monkeypatch.setattr(job, "_cores", lambda: 2)
    monkeypatch.setattr(job, "LEAST_BYTES", 100)

    def is_alone(*sizes):
        return set(job.in_processes("/logs", sizes, _process, JobWatch(None, "import", list(sizes)))) == {os.getpid()}

    assert not is_alone(50, 50)
    assert is_alone(50, 49)
    assert is_alone(100)


def _process(_):
    return os.getpid()


@pytest.mark.parametrize(
    ("retention_ms", "newest_ms", "is_told"),
    [
        (10, 990, False),
        (10, 989, True),
        (0, 1000, False),
        (0, 999, True),
        (-1, 1, False),
        (10, 0, True),
        (10, -1, False),
    ],
)
def test_a_note_says_which_records_a_broker_deletes(retention_ms, newest_ms, is_told):
    """UnifiedLog.deleteRetentionMsBreachedSegments: now - largestTimestamp > retention.ms, where any has a timestamp."""
    setting = SimpleNamespace(explanation="retention.ms")
    config = SimpleNamespace(local_retention_ms=retention_ms, is_deleted=True)
    importing = object.__new__(job.Import)
    importing._new, importing._now_ms = SimpleNamespace(log_dir="/logs"), 1000

    class Config(SimpleNamespace):
        def __getitem__(self, _):
            return setting

    importing._source = SimpleNamespace(topic_config=lambda *_: Config(**vars(config)))
    done = SimpleNamespace(topic="t", partition=0, built=SimpleNamespace(odd_time=None, newest_ms=newest_ms))
    assert bool(importing._of_times([done])) == is_told


def test_the_first_record_that_differs_is_named_by_its_number():
    one, other = (pa.table({"key": [b"a", b"b", last], "value": [b"", b"", b""]}) for last in (b"c", b"d"))
    assert planning._difference(one, other, 5) == "record 8 was read back with another key"
    assert planning._difference(one, one.slice(0, 2), 5) == "7 records were read back, 8 or more were written"
    assert planning._difference(one.slice(0, 2), one, 5) == "more than the 7 records written were read back"


def test_the_digest_of_a_proof_has_all_bytes_of_all_records():
    def digest(*keys):
        found = hashlib.sha256()
        planning._add(found, pa.table({"key": pa.array(keys, pa.binary())}))
        return found.digest()

    different = [
        (b"a", b"b"),
        (b"a", b"c"),
        (b"a", b""),
        (b"a", None),
        (b"", b"a"),
        (None, b"a"),
        (b"x", b"b"),
        (b"a",),
    ]
    assert len({digest(*keys) for keys in different}) == len(different)
    whole = pa.table({"key": pa.array([b"z", b"a", b"b", b"z"], pa.binary())})
    part = hashlib.sha256()
    planning._add(part, whole.slice(1, 2))
    assert part.digest() == digest(b"a", b"b")


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 8, 9])
def test_compared_tables_have_equal_numbers_of_rows(monkeypatch, count):
    monkeypatch.setattr(planning, "_ROWS", 4)
    table = pa.table({"offset": list(range(count))})
    for size in (1, 3, 4, 9):
        parts = [part for at in range(0, count, size) for part in table.slice(at, size).to_batches()]
        found = list(planning._rows_of(parts))
        assert [each.num_rows for each in found] == [4] * (count // 4) + [count % 4] * bool(count % 4)
        assert [one for each in found for one in each.column("offset").to_pylist()] == list(range(count))

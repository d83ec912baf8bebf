"""Audits: the findings of verify and the counts of the core on every case of the corpus; what cannot be looked at."""

import re
import shutil
import warnings
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kafkalog_cli as kl
from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import ExitCode, KafkalogError, NotKafkaLayout, PathNotFound, combined_exit_code
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.ops.audit.audit import Failed
from kafkalog_cli.ops.compact.plan import CompactRequest, plan_compact
from kafkalog_cli.ops.listing.paths import Lister
from kafkalog_cli.ops.partition_state import Roots
from kafkalog_cli.ops.selection import Selection
from kafkalog_cli.ops.settings import SettingsSource
from kafkalog_cli.ops.verify.task import Level
from kafkalog_cli.spark import audit_job as module
from tests.spark.auditing import NOW_MS, audit, statistics, tasks_here
from tests.spark.test_spark_rows import log_dir
from tests.support.effort import DIAL
from tests.support.logs import BASE_TIME_MS, R, batch_v2, end_marker, message_set
from tests.support.strategies import logs as any_logs
from tests.support.verifying_paths import verified

STATES = ("data", "before", "after", "before2", "after2", "running", "after-restart", "after-cleaner")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FS = RealFilesystem()


def first_offset(path):
    """The base offset of the first segment."""
    return open_partition(FS, str(path)).segments[0].base_offset


def log_dirs(corpus):
    return [case / state for case in sorted(corpus.iterdir()) for state in STATES if (case / state).is_dir()]


def verify(path, level):
    return verified([path], level, now_ms=NOW_MS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("level", Level)
def test_what_verify_says_of_every_case_of_the_corpus(corpus, level):
    kinds, paths = Counter(), log_dirs(corpus)
    for path in DIAL.some(paths):
        found, wanted = audit(path, level=level), verify(path, level)
        assert [one.result for one in found] == wanted, path
        assert [one.exit_code for one in found] == [one.exit_code for one in wanted]
        kinds.update(one.kind for result in wanted for one in result.findings)
    assert len(kinds) > 15 * len(DIAL.some(paths)) // len(paths)


def of_the_library(folder):
    """Records by codec, without control records, and how many of them the library could not read."""
    (log,) = kl.open(folder)
    damage, counts = [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kl.LogWarning)
        for part in log.records(columns=["offset"], on_damage=damage.append):
            counts += part.num_rows
    return counts, damage


@pytest.mark.full
@pytest.mark.parametrize("level", [Level.QUICK, Level.DEEP])
def test_the_counts_of_the_core(corpus, level):
    """Records by the headers, or read; batches, codecs and times by the headers of all batches."""
    compared = unknown = 0
    for path in log_dirs(corpus):
        for folder, one in statistics(audit(path, level=level)).items():
            (listed,) = Lister(FS, Selection(), transactions=False).list(str(path / folder)).partitions
            assert (one.bytes, one.total_bytes) == (listed.bytes_by_kind.log, listed.bytes_by_kind.total)
            assert (one.high_watermark, one.first_timestamp) == (listed.high_watermark, listed.first_timestamp)
            assert sum(codec.batches for codec in one.codecs) == one.batches
            if not one.segments:
                continue
            records, damage = of_the_library(path / folder)
            if damage or listed.faults or listed.log_start_offset != first_offset(path / folder):
                continue  # what lies below the log's start is counted here, but not read
            assert sum(codec.bytes for codec in one.codecs) == one.bytes
            if one.records is None:
                assert level is not Level.DEEP
                unknown += 1
            else:
                assert one.records == records, (path, folder)
                compared += records
    assert compared > 20_000
    assert bool(unknown) == (level is not Level.DEEP)


def test_the_dirty_ratio_of_compact(corpus):
    """Of every log that a setting, or a line of the cleaner's, says is compacted; of no other."""
    ratios = []
    for path in log_dirs(corpus):
        roots = Roots(FS)
        for folder, one in statistics(audit(path, level=Level.QUICK)).items():
            partition = open_partition(FS, str(path / folder))
            state = roots.state(str(path), partition)
            if one.dirty_ratio is None:
                told = {} if state.line(FileKind.CLEANER_CHECKPOINT) is None else {"cleanup.policy": "compact"}
            else:
                told = {"cleanup.policy": "compact"}
            config = SettingsSource(FS, told, None, log_dirs=[str(path)])
            try:
                dirt = plan_compact(FS, partition, state, CompactRequest(NOW_MS, config)).dirt
            except KafkalogError:
                dirt = None
            if one.dirty_ratio is not None:
                assert (one.dirty_bytes, one.dirty_ratio) == (dirt.cleanable_bytes, dirt.ratio), (path, folder)
                ratios.append(one.dirty_ratio)
            elif not partition.directory.is_metadata_log:  # at which no cleaner looks
                assert dirt is None, (path, folder)
    assert len(ratios) > 50
    assert len(set(ratios)) > 3


@settings(max_examples=DIAL.part(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(log=any_logs())
def test_counts_of_any_log(log, tmp_path_factory):
    folder = log_dir(tmp_path_factory.mktemp("any"), log.data, base=log.base_offset)
    wanted = sum(map(len, log.batches))
    for level in Level:
        for forced in (False, True):
            (one,) = statistics(audit(folder, level=level, run_tasks=tasks_with(KernelChoice(forced=forced)))).values()
            assert (
                one.records
                in ((wanted - one.control_records,), (wanted - one.control_records, None))[level is not Level.DEEP]
            ), level


def tasks_with(choice):
    def run(spark, items, work, *_):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("kafkalog_cli.spark.audit_job.KernelChoice", lambda: choice)
            return tasks_here(spark, items, work)

    return run


def test_codecs_times_and_control_records(tmp_path):
    first = batch_v2([R(i, BASE_TIME_MS + i, b"k", b"v" * 90) for i in range(10)], 4, producer=(5, 3, 0), bits=16)
    data = first + end_marker(10, BASE_TIME_MS + 50, (5, 3), 1, 0) + batch_v2([R(11, BASE_TIME_MS + 9, None, b"x")], 0)
    folder = log_dir(tmp_path, data)
    for level in Level:
        (one,) = statistics(audit(folder, level=level)).values()
        assert (one.records, one.control_records, one.batches) == (11, 1, 3)
        assert one.codecs == (("none", 2, len(data) - len(first)), ("zstd", 1, len(first)))
        assert (one.first_timestamp, one.max_timestamp) == (BASE_TIME_MS, BASE_TIME_MS + 50)
        assert (one.dirty_ratio, one.topic_id) == (None, None)


def test_headers_that_do_not_say_how_many_records(tmp_path):
    folder = log_dir(tmp_path, message_set([R(i, BASE_TIME_MS, b"k", b"v") for i in range(4)], 1, 1))
    assert [statistics(audit(folder, level=level))["orders-0"].records for level in Level] == [None, None, 4]


def test_batches_with_bad_crcs_are_not_counted(tmp_path):
    good, bad = (bytearray(batch_v2([R(offset, BASE_TIME_MS, b"k", b"v")])) for offset in (0, 1))
    bad[-1] ^= 1
    folder = log_dir(tmp_path, bytes(good + bad + batch_v2([R(2, BASE_TIME_MS, b"k", b"v")])))
    assert [statistics(audit(folder, level=level))["orders-0"].records for level in Level] == [3, 2, 2]


def test_a_partition_in_two_log_directories(tmp_path):
    for disk in ("a", "b"):
        log_dir(tmp_path / disk, batch_v2([R(0, BASE_TIME_MS, b"k", b"v")]))
        (tmp_path / disk / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    found = audit(tmp_path / "a", tmp_path / "b")
    twins = [f.message for one in found for f in one.result.findings if f.kind.value == "twin-directories"]
    assert twins == [f"the partition also lies in {tmp_path / disk / 'orders-0'}" for disk in ("b", "a")]
    assert {one.log_dir for one in found} == {(str(tmp_path / disk), "c", 1, None) for disk in ("a", "b")}


def test_what_cannot_be_looked_at_is_said_and_the_rest_goes_on(tmp_path):
    """A directory that a broker removes after it was found (no failure), a path that is not there, a file."""
    for number in range(3):
        log_dir(tmp_path / "log", batch_v2([R(0, BASE_TIME_MS, b"k", b"v")]), partition=number)

    def lost(spark, items, work, *_):
        shutil.rmtree(tmp_path / "log" / "orders-1")
        return tasks_here(spark, items, work)

    (tmp_path / "log" / "orders-2" / "x.log").write_bytes(b"")
    found = audit(tmp_path / "nowhere", tmp_path / "log", tmp_path / "log/orders-2/x.log", run_tasks=lost)
    failed = {one.path: one for one in found if isinstance(one.result, Failed)}
    assert {path: type(one.result.error) for path, one in failed.items()} == {
        str(tmp_path / "nowhere"): PathNotFound,
        str(tmp_path / "log" / "orders-2"): NotKafkaLayout,
    }
    assert [*statistics(found)] == ["orders-0", "orders-2"]
    assert combined_exit_code([one.exit_code for one in found]) is ExitCode.CORRUPTION  # the name x.log


def test_a_worker_that_sees_another_disk_says_so_and_the_rest_goes_on(tmp_path, monkeypatch):
    """An older copy of one partition and an empty directory of another, as a worker has them that has other mounts."""
    batches = [batch_v2([R(at, BASE_TIME_MS, b"k", b"v")]) for at in range(2)]
    for number in range(3):
        log_dir(tmp_path / "log", b"".join(batches), partition=number)

    def elsewhere(spark, items, work, *_):
        monkeypatch.setattr("socket.gethostname", lambda: "worker")
        log = tmp_path / "log" / "orders-1" / f"{0:020d}.log"
        log.write_bytes(batches[0])
        (tmp_path / "log" / "orders-2" / log.name).unlink()
        return tasks_here(spark, items, work)

    monkeypatch.setattr("socket.gethostname", lambda: "driver")
    found = {one.path.rpartition("/")[2]: one for one in audit(tmp_path / "log", run_tasks=elsewhere)}
    assert {name: one.exit_code for name, one in found.items() if isinstance(one.result, Failed)} == {
        "orders-1": ExitCode.REFUSED, "orders-2": ExitCode.REFUSED,
    }  # fmt: skip
    path, sizes = tmp_path / "log" / "orders-1", [len(batches[0]), len(batches[0] + batches[1])]
    said = str(found["orders-1"].result.error)
    assert said.startswith(
        f"{path}: refused: worker sees another directory there than driver, where the run was planned"
    )
    assert re.search(rf"log of {sizes[0]} bytes \(inode \d+\), not of {sizes[1]} bytes \(inode \d+\); nothing ", said)
    assert found["orders-0"].statistics.records == 2


@pytest.mark.parametrize(
    ("host", "has_meta", "codes"),
    [("driver", False, []), ("worker", True, []), ("worker", False, [ExitCode.NOT_FOUND])],
)
def test_a_directory_that_a_broker_removes_is_no_failure(tmp_path, monkeypatch, host, has_meta, codes):
    """A worker that sees another log directory cannot tell: its mount may be missing."""
    monkeypatch.setattr("socket.gethostname", lambda: "driver")
    folder = log_dir(tmp_path, batch_v2([R(0, BASE_TIME_MS, b"k", b"v")]))
    (folder / "orders-0").rename(folder / "orders-0.00112233445566778899aabbccddeeff-delete")
    log_dir(tmp_path, batch_v2([R(0, BASE_TIME_MS, b"k", b"v")]))
    if has_meta:
        (folder / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=a2Fma2Fsb2ctdGVzdHMtMQ\n")

    def later(spark, items, work, *_):
        monkeypatch.setattr("socket.gethostname", lambda: host)
        for removed in folder.glob("*-delete"):
            shutil.rmtree(removed)
        return tasks_here(spark, items, work)

    found = audit(folder, run_tasks=later)
    assert [one.exit_code for one in found if isinstance(one.result, Failed)] == codes
    told = [one for one in found if one.path.endswith("-delete")]
    assert len(told) == 1
    assert codes or "it was removed or renamed while this run went on" in told[0].result.findings[0].message
    assert statistics(found)["orders-0"].records == 1


def test_a_broker_at_work_is_no_other_disk(tmp_path, monkeypatch):
    """It appends, rolls, trims the indexes that it had made large, and cleans and deletes what is old."""
    monkeypatch.setattr("socket.gethostname", lambda: "driver")
    folder = log_dir(tmp_path, batch_v2([R(0, BASE_TIME_MS, b"k", b"v" * 50)]))
    log_dir(tmp_path, batch_v2([R(2, BASE_TIME_MS, b"k", b"v")]), base=2)
    log_dir(tmp_path, batch_v2([R(3, BASE_TIME_MS, b"k", b"v" * 50)]), base=3)
    partition = folder / "orders-0"
    (partition / f"{3:020d}.index").write_bytes(bytes(10 << 10))

    def later(spark, items, work, *_):
        monkeypatch.setattr("socket.gethostname", lambda: "worker")
        (partition / f"{0:020d}.log").write_bytes(batch_v2([R(1, BASE_TIME_MS, b"k", None)]))  # cleaned
        (partition / f"{2:020d}.log").unlink()
        (partition / f"{3:020d}.index").write_bytes(b"")
        with (partition / f"{3:020d}.log").open("ab") as log:
            log.write(batch_v2([R(4, BASE_TIME_MS, b"k", b"v")]))
        (partition / f"{5:020d}.log").touch()
        return tasks_here(spark, items, work)

    found = audit(folder, run_tasks=later)
    assert not [one for one in found if isinstance(one.result, Failed)]
    assert statistics(found)["orders-0"].batches == 3


def test_tasks_are_the_partitions_the_largest_first_and_stay_small(corpus):
    asked = []

    def run(spark, items, work, *_):
        asked.extend(items)
        return tasks_here(spark, items, work)

    path = corpus / "internal" / "data"
    found = audit(path, run_tasks=run)
    tasks = [task for group in asked for task in group]
    sizes = [task.size_bytes for task in tasks]
    assert sizes == sorted(sizes, reverse=True)
    assert len(tasks) == len(statistics(found)) > 5
    assert [one.result.path for one in found] == [one.path for one in verify(path, Level.QUICK)]
    for task in tasks:
        lines = sum(len(lines) for lines in task.task.root.offsets.values())
        assert lines <= 4  # not those of all other partitions


@given(st.lists(st.integers(0, 100), max_size=40))
def test_small_partitions_share_a_task(sizes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "TASK_BYTES", 50)
        patch.setattr(module, "TASK_PARTITIONS", 7)
        groups = module._grouped(sizes)
    assert sorted(at for group in groups for at in group) == [*range(len(sizes))]
    for group in groups:
        assert len(group) == 1 or (sum(sizes[at] for at in group) <= 50 and len(group) <= 7)
    firsts = [sizes[group[0]] for group in groups]
    assert firsts == sorted(firsts, reverse=True)
    assert len(groups) <= 1 + len(sizes) // 7 + 2 * sum(sizes) // 50


def test_a_task_that_is_tried_again_finds_the_same(corpus):
    asked = []

    def twice(spark, items, work, *_):
        asked.extend(items)
        first = tasks_here(spark, items, work)
        assert tasks_here(spark, items, work) == first
        return first

    assert len(audit(corpus / "crash-flip-mid" / "before", top=3, run_tasks=twice)) > len(asked) > 0


def keys_of_the_library(folder):
    """Records and bytes by key, records without one, tombstones; of what the library reads."""
    (log,) = kl.open(folder)
    records, size_bytes, nulls, tombstones = Counter(), Counter(), 0, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kl.LogWarning)
        for part in log.records(columns=["key", "value"], on_damage=lambda _: None):
            for key, value in zip(*(part.column(name).to_pylist() for name in ("key", "value")), strict=True):
                if key is None:
                    nulls += 1
                    continue
                records[key] += 1
                size_bytes[key] += len(key) + len(value or b"")
                tombstones += value is None
    return records, size_bytes, nulls, tombstones


def same_keys(found, wanted, top):
    records, size_bytes, nulls, tombstones = wanted
    assert (found.keys, found.relative_error) == (len(records), 0)
    assert (found.null_keys, found.tombstones) == (nulls, tombstones)
    assert [one.bytes for one in found.largest] == [count for _, count in size_bytes.most_common(top)]
    assert [one.records for one in found.most_frequent] == [count for _, count in records.most_common(top)]
    for one in (*found.largest, *found.most_frequent):
        assert (one.records, one.bytes) == (records[one.key], size_bytes[one.key])


@settings(max_examples=DIAL.part(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(log=any_logs())
def test_keys_of_any_log(log, tmp_path_factory):
    folder = log_dir(tmp_path_factory.mktemp("any"), log.data, base=log.base_offset)
    wanted = keys_of_the_library(folder / "orders-0")
    for forced in (False, True):
        run = tasks_with(KernelChoice(forced=forced))
        (one,) = statistics(audit(folder, top=3, run_tasks=run)).values()
        same_keys(one.keys, wanted, 3)


@pytest.mark.full
def test_keys_of_the_corpus_and_findings_that_stay_the_same(corpus):
    """Reading the records for their keys does not change what the level finds."""
    compared = 0
    for path in log_dirs(corpus)[::3]:
        found = audit(path, level=Level.NORMAL, top=4)
        assert [one.result for one in found] == verify(path, Level.NORMAL), path
        for folder, one in statistics(found).items():
            (listed,) = Lister(FS, Selection(), transactions=False).list(str(path / folder)).partitions
            if not listed.partition.segments or listed.faults or one.records is None:
                continue
            if listed.log_start_offset != first_offset(path / folder) or one.records == 0:
                continue
            records, damage = of_the_library(path / folder)
            if not damage:
                assert records == one.records
                same_keys(one.keys, keys_of_the_library(path / folder), 4)
                compared += one.keys.keys
    assert compared > 2_000

"""The history of audits: a run is there as a whole or not at all; what changed between two of them; other disks."""

import shutil

import pytest

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.errors import KafkalogError, UnsupportedFormat
from kafkalog_cli.ops.audit.audit import AuditedLogDir
from kafkalog_cli.ops.audit.compare import (
    AuditChangeKind,
    History,
    audit_schema,
    audit_table,
    changes,
    replaced,
    rows_of,
    run_of,
)
from tests.spark.auditing import NOW_MS, audit
from tests.spark.exporting import pa, pq
from tests.spark.test_spark_rows import log_dir
from tests.support.logs import BASE_TIME_MS, R, batch_v2
from tests.support.memory_fs import MemoryFilesystem
from tests.support.watched_fs import RecordingFilesystem, every_fault

DAY_MS = 86_400_000
PLACE = "/home/history"


def records(first, count):
    return batch_v2([R(at, BASE_TIME_MS + at, b"k%d" % (at % 3), b"v" * 10) for at in range(first, first + count)])


def day(number, host="here"):
    return run_of(NOW_MS + number * DAY_MS, host, "1.2.3")


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audited")
    log_dir(folder, records(0, 5))
    log_dir(folder, records(0, 7) + b"torn", "other")
    return audit(folder, top=2)


def seen(fs):
    """The runs that somebody who reads the directory sees, every one of which can be read."""
    if fs.status(PLACE) is None:
        return []
    names = sorted(entry.path for entry in fs.list_directory(PLACE) if entry.path.endswith(".parquet"))
    for name in names:
        table = pq.read_table(pa.BufferReader(fs.tree("/home")[name][0]))
        assert table.schema.remove_metadata() == audit_schema()
        assert table.num_rows == 3
    return names


def empty_disk():
    fs = MemoryFilesystem()
    fs.add("/home/other", b"not ours")
    return fs


@pytest.mark.full
def test_a_power_cut_after_any_call(audited):
    disk = empty_disk()
    History(disk, PLACE, "all").append(audited, day(0))
    disk.settle()
    images = []
    fs = RecordingFilesystem(disk, lambda _: images.extend(disk.images()))
    History(fs, PLACE, "all").append(audited, day(1))
    (first, _), counts = seen(disk), set()
    for name, image in images:
        runs = seen(image)
        counts.add(len(runs))
        assert runs[0] == first, name
        History(image, PLACE, "all").append(audited, day(2))
        assert len(seen(image)) in (2, 3), name
        assert len(seen(image)) >= len(runs) + 1
    assert counts == {1, 2}
    assert len(images) > 50


@pytest.mark.full
def test_calls_that_fail(audited):
    failed = 0
    for fs in every_fault(empty_disk):
        try:
            History(fs, PLACE, "all").append(audited, day(0))
        except (KafkalogError, OSError):
            failed += 1
        before = len(seen(fs.below))
        History(fs.below, PLACE, "all").append(audited, day(1))
        assert before + 1 <= len(seen(fs.below)) <= 2
    assert failed > 20


def test_rows_come_back(audited, tmp_path):
    """All of what is told is in the file, as Arrow has it."""
    fs = RealFilesystem()
    run = day(0)
    History(fs, str(tmp_path / "history"), "all").append(audited, run)
    (file,) = (tmp_path / "history").glob("*.parquet")
    assert file.stem == run.run
    assert pq.read_table(file).replace_schema_metadata(None) == audit_table(audited, run)
    rows = pq.read_table(file).to_pylist()
    assert [(row["target"], row["topic"], row["records"], row["keys"]) for row in rows] == [
        ("partition", "orders", 5, 3), ("partition", "other", 7, 3), ("log-directory", None, None, None),
    ]  # fmt: skip
    assert rows[1]["codecs"] == [{"codec": "none", "batches": 1, "bytes": len(records(0, 7))}]
    assert "torn-tail" in {one["kind"] for one in rows[1]["findings"]}
    assert [one["key"] for one in rows[0]["largest_keys"]] in ([b"k0", b"k1"], [b"k1", b"k0"])


def test_two_days(tmp_path):
    fs, log, history = RealFilesystem(), tmp_path / "log", History(RealFilesystem(), str(tmp_path / "history"), "all")
    for topic in ("grows", "goes", "stays", "heals"):
        log_dir(log, records(0, 10) + (b"torn" if topic == "heals" else b""), topic)
    history.append(audit(log), day(0))
    log_dir(log, records(0, 10) + records(10, 5), "grows")
    log_dir(log, records(0, 10), "heals")
    log_dir(log, records(0, 3)[:-1] + b"\xff", "comes")
    shutil.rmtree(log / "goes-0")
    found, run = audit(log), day(1)
    before = history.before([str(log)], "here", run.time_ms)
    history.append(found, run)
    told = {one.topic: one for one in changes(rows_of(found, run), before)}
    assert {topic: one.kind for topic, one in told.items()} == {
        "comes": AuditChangeKind.NEW, "goes": AuditChangeKind.GONE, "grows": AuditChangeKind.CHANGED, "heals": AuditChangeKind.CHANGED,
        "stays": AuditChangeKind.SAME, None: AuditChangeKind.SAME,
    }  # fmt: skip
    grown = len(records(10, 5))
    assert (told["grows"].bytes, told["grows"].records, told["grows"].offsets) == (grown, 5, 5)
    assert (told["grows"].bytes_per_s, told["grows"].offsets_per_s) == (grown / 86_400, 5 / 86_400)
    assert (told["goes"].bytes, told["goes"].records) == (-len(records(0, 10)), -10)
    assert [kind for kind, _ in told["heals"].gone_findings] == ["torn-tail"]
    assert "bad-tail-batch" in [kind for kind, _ in told["comes"].new_findings]
    assert (told["stays"].new_findings, told["stays"].gone_findings) == ((), ())
    assert fs.status(str(tmp_path / "history")).is_directory


def test_which_run_is_compared(tmp_path):
    """The newest up to a time, of this host, with the same choice, that has looked at the place."""
    log, fs = tmp_path / "log", RealFilesystem()
    log_dir(log, records(0, 1))
    found, place = audit(log), str(log)
    one, other = (History(fs, str(tmp_path / "history"), what) for what in ("all", "some"))
    runs = [day(number) for number in range(3)]
    for run in runs:
        one.append(found, run)
    one.append(found, day(3, "there"))
    other.append(found, day(4))
    (tmp_path / "history" / "notes.txt").write_text("not ours")
    for until, wanted in ((9, 2), (1.5, 1), (1, 1), (0, 0)):
        assert one.before([place], "here", NOW_MS + int(until * DAY_MS))[place].run == runs[wanted].run
    assert one.before([place], "here", NOW_MS - 1) == one.before(["/elsewhere"], "here", NOW_MS + 9 * DAY_MS) == {}
    assert other.before([place], "here", NOW_MS + 9 * DAY_MS)[place].time_ms == NOW_MS + 4 * DAY_MS
    (tmp_path / "history" / "9.parquet").write_bytes(b"no Parquet")
    with pytest.raises(UnsupportedFormat):
        one.before([place], "here", NOW_MS)


IDS = ["QUFBQUFBQUFBQUFBQUFBQQ", "QkJCQkJCQkJCQkJCQkJCQg", "Q0NDQ0NDQ0NDQ0NDQ0NDQw"]
IDENTITY = "version=1\ncluster.id={}\nnode.id={}\ndirectory.id={}\n"


def test_a_log_directory_that_is_another(tmp_path):
    log, fs = tmp_path / "log", RealFilesystem()
    log_dir(log, records(0, 1))
    (log / "meta.properties").write_text(IDENTITY.format(IDS[0], 4, IDS[1]))
    history = History(fs, str(tmp_path / "history"), "all")
    history.append(audit(log), day(0))
    past = history.before([str(log)], "here", NOW_MS)[str(log)]
    same = AuditedLogDir(str(log), IDS[0], 4, IDS[1])
    assert replaced(same, 1, past) == replaced(same, 9, past) == ""
    assert replaced(same, 0, past) == f"it is empty; at the audit {past.run} it had 1 partitions"
    assert "no meta.properties" in replaced(AuditedLogDir(str(log)), 1, past)
    assert replaced(same._replace(cluster_id="c2"), 1, past).startswith("its cluster.id is c2; at the audit ")
    assert "node.id is 5" in replaced(same._replace(node_id=5), 1, past)
    assert f"directory.id is {IDS[2]}" in replaced(same._replace(directory_id=IDS[2]), 1, past)


def test_the_time_of_a_record_may_be_any(tmp_path):
    """Beyond what a calendar has: told as it is in text, null in columns where Spark could not have it."""
    folder = log_dir(tmp_path, batch_v2([R(0, (1 << 62), b"k", b"v")]))
    found, run = audit(folder), day(0)
    assert found[0].statistics.max_timestamp == 1 << 62
    assert audit_table(found, run).column("max_timestamp").to_pylist()[0] is None
    assert rows_of(found, run)[0]["records"] == 1

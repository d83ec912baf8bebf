"""What is done for each of many partitions does not grow with how many there are beside it."""

from collections import Counter

import pytest

from kafkalog_cli.log.log_dir import OFFSET_CHECKPOINTS
from kafkalog_cli.ops.move.export_job import exported_partitions, plan_export
from kafkalog_cli.ops.move.export_request import ExportRequest
from kafkalog_cli.ops.ranges import Range
from kafkalog_cli.ops.selection import Selection
from kafkalog_cli.spark import planned_tasks
from kafkalog_cli.spark import source as source_module
from tests.spark.spark_reading import tasks
from tests.support.logs import BASE_TIME_MS, R, batch_v2
from tests.support.product import RealFilesystem
from tests.support.watched_fs import WatchedFilesystem

MANY = 12
CHECKPOINT = "0\n1\norders 3 7\n"


class Counting(WatchedFilesystem):
    def __init__(self):
        super().__init__(RealFilesystem())
        self.calls = Counter()

    def before(self, call):
        self.calls[call.name, call.path] += 1


@pytest.fixture
def folder(tmp_path):
    for number in range(MANY):
        (tmp_path / f"orders-{number}").mkdir()
        data = b"".join(batch_v2([R(i, BASE_TIME_MS + i, b"k", b"v")]) for i in range(10))
        (tmp_path / f"orders-{number}" / f"{0:020d}.log").write_bytes(data)
    (tmp_path / "log-start-offset-checkpoint").write_text(CHECKPOINT)
    (tmp_path / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    return tmp_path


def of_the_root(fs, folder):
    """How often its listing was made, and its files were read."""
    return {call: count for call, count in fs.calls.items() if call[1].rpartition("/")[0] == str(folder)} | {
        ("list_directory", str(folder)): fs.calls["list_directory", str(folder)]
    }


@pytest.mark.exhaustive
@pytest.mark.parametrize("wanted", [Range(), Range(since_ms=BASE_TIME_MS + 5)], ids=["all", "since"])
def test_an_export_is_planned_with_one_look_at_the_log_directory(folder, wanted):
    fs = Counting()
    found = exported_partitions(fs, [str(folder)], Selection())
    fs.calls.clear()
    plan = plan_export(fs, found, ExportRequest(range=wanted), {})
    pieces = sorted(piece for task in plan.tasks for piece in task)
    assert len(pieces) == MANY
    assert [piece.first for piece in pieces if piece.partition == 3] == [7]
    seen = of_the_root(fs, folder)
    assert seen["list_directory", str(folder)] == 0
    files = {call: n for call, n in seen.items() if call[0] == "open_read"}
    names = (*(kind.value for kind in OFFSET_CHECKPOINTS), "meta.properties")
    assert files == {("open_read", f"{folder}/{name}"): 1 for name in names}
    assert all(count <= 3 for call, count in seen.items() if call[0] == "status"), seen


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("options", "count"),
    [({}, MANY * 10 - 7), ({"startingTimestamp": BASE_TIME_MS + 5, "endingTimestamp": BASE_TIME_MS + 8}, MANY * 3 - 2)],
    ids=["all", "by time"],
)
def test_a_read_and_each_of_its_tasks_lists_no_log_directory_again(folder, monkeypatch, options, count):
    fs = Counting()
    for module in (source_module, planned_tasks):
        monkeypatch.setattr(module, "RealFilesystem", lambda: fs)
    reader, parts = tasks(folder, **{name: str(value) for name, value in options.items()})
    assert len(parts) == 1
    assert fs.calls.pop(("list_directory", str(folder))) == 1  # to find the partitions
    assert sum(part.num_rows for part in reader.read(parts[0])) == count
    seen = of_the_root(fs, folder)
    assert seen["list_directory", str(folder)] == 0
    assert seen["open_read", f"{folder}/log-start-offset-checkpoint"] == 2  # for the plan, and for the task

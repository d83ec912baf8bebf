"""append syncs the log after flush.messages records, so that a power cut loses no more than the topic allows."""

import pytest

from tests.support.commands import kafkalog
from tests.support.logs import BASE_TIME_MS, R, batch_v2, write_segment
from tests.support.product import RealFilesystem
from tests.support.watched_fs import WatchedFilesystem


class Syncs(WatchedFilesystem):
    """How many bytes the log has at each of its syncs."""

    def __init__(self, log):
        super().__init__(RealFilesystem())
        self.log, self.sizes = log, []

    def after(self, call):
        if call.name == "sync" and call.path == str(self.log):
            self.sizes.append(self.log.stat().st_size)


@pytest.mark.parametrize(("most", "synced"), [(1, [1, 2, 3, 4, 5]), (2, [2, 4, 5]), (5, [5]), (6, [5])])
def test_append_syncs_as_soon_as_flush_messages_records_are_written(tmp_path, most, synced):
    """UnifiedLog.append: unflushedMessages >= flush.messages. The rest is synced at the end."""
    (tmp_path / "t-0").mkdir()
    write_segment(tmp_path / "t-0", 0, [(batch_v2([R(0, BASE_TIME_MS)]), 0, BASE_TIME_MS)])
    log = tmp_path / "t-0" / f"{0:020d}.log"
    before, fs = log.stat().st_size, Syncs(log)
    argv = (
        "append",
        tmp_path / "t-0",
        "--single-replica",
        "--input",
        "lines",
        "--batch-bytes",
        "61",
        "--now",
        BASE_TIME_MS,
    )
    ran = kafkalog(*argv, "--config", f"flush.messages={most}", fs=fs, stdin=b"v\n" * 5)
    assert ran.code == 0, ran
    size = (log.stat().st_size - before) // 5
    assert sorted({(at - before) // size for at in fs.sizes} - {0}) == synced

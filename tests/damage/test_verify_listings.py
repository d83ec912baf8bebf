"""A quick verification lists each partition directory once: all its checks rest on that listing."""

from collections import Counter

import pytest

from tests.crash.log_directories import PARTITION, ROOT
from tests.crash.test_live import live_disk
from tests.crash.writers import NOW_MS, kafkalog
from tests.support.watched_fs import Call, WatchedFilesystem


class Counting(WatchedFilesystem):
    """Counts the calls about a partition and its files."""

    def __init__(self, below):
        super().__init__(below)
        self.calls = Counter()

    def before(self, call: Call) -> None:
        if call.path.startswith(PARTITION) and call.name != "read":
            self.calls[call.name, call.path.removeprefix(PARTITION)] += 1


@pytest.mark.parametrize(("options", "listings"), [((), 1), (("--format", "json"), 2)])
def test_verify_lists_and_opens_a_partition_a_fixed_number_of_times(options, listings):
    """The progress of JSON output needs the size of all partitions before the first, so one listing more."""
    fs = Counting(live_disk())
    outcome = kafkalog(fs, "verify", "--level", "quick", *options, ROOT, now_ms=NOW_MS)
    assert outcome.code == 0, outcome
    assert fs.calls == {
        ("list_directory", ""): listings,
        **{("open_read", f"/{base:020d}.log"): 1 for base in (0, 6, 14)},
        ("open_read", "/leader-epoch-checkpoint"): 1,
        ("open_read", "/partition.metadata"): 1,
    }

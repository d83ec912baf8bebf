"""The last line of a command that changes logs, by the counts of its partitions."""

import pytest

from kafkalog_cli.errors import ExitCode
from kafkalog_cli.ops.session.verb import Summary
from kafkalog_cli.output.views import FAILED, RunCounts

OK, REFUSED, FAILURE = ExitCode.OK, ExitCode.REFUSED, ExitCode.FAILURE


def counted(changed, partitions):
    counts = RunCounts()
    for number in range(partitions):
        counts.add(has_work=number < changed)
    return counts


@pytest.mark.parametrize(
    ("changed", "counts", "summary", "line"),
    [
        (2, {}, Summary(OK, (OK,) * 3), "3 partitions: 2 changed, 1 unchanged, 1.4 s"),
        (3, {"cut_bytes": 293}, Summary(OK, (OK,) * 3), "3 partitions: 3 changed, 293 bytes cut, 1.4 s"),
        (1, {FAILED: 1}, Summary(REFUSED, (OK, REFUSED, OK)), "3 partitions: 1 changed, 1 unchanged, 1 refused, 1.4 s"),
        (1, {}, Summary(FAILURE, (OK, REFUSED, FAILURE), 2), "3 partitions: 1 changed, 1 refused, 1 failed, 1.4 s"),
        (
            2,
            {"removed_segments": 2, "removed_bytes": 20 << 20, "unlinked_files": 1, "unlinked_bytes": 5},
            Summary(OK, (OK,) * 3),
            "3 partitions: 2 changed, 1 unchanged, 2 segments (20 MiB) removed, 1 old file (5 bytes) unlinked, 1.4 s",
        ),
        (
            1,
            {"records_gone": 1},
            Summary(ExitCode.INTERRUPTED, (OK,), 0, (object(), object())),
            "3 partitions: 1 changed, 2 not done, 1 record removed, 1.4 s",
        ),
    ],
)
def test_a_run_on_several_partitions(changed, counts, summary, line):
    assert [*counted(changed, 3).done(3, counts, summary, 1.4)] == [line]


def test_a_single_partition_has_its_own_line():
    assert [*counted(1, 1).done(1, {}, Summary(OK, (OK,)), 1.4)] == []


def test_a_dry_run_says_would():
    (line,) = counted(1, 2).planned(2, {"cut_bytes": 293, FAILED: 1})
    assert line == "dry run: 1 of 2 partitions would be changed, 293 bytes would be cut, 1 refused. Nothing was changed"

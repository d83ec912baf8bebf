"""Runs audits in this process: all but Spark, whose place is taken by a loop through which everything is pickled."""

import pytest

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.ops.selection import Selection
from kafkalog_cli.ops.verify.task import Level
from kafkalog_cli.spark import audit_job as module
from tests.spark.exporting import no_session, tasks_here

NOW_MS = 1_795_300_000_000
"""A time after the corpus was made (November 2026)."""


def audit(*paths, level=Level.NORMAL, fs=None, run_tasks=tasks_here, **request):
    """What an audit of all under `paths` finds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "run_tasks", run_tasks)
        wanted = module.AuditRequest(Selection(), level, NOW_MS, **request)
        made = module.Audit(fs or RealFilesystem(), [str(path) for path in paths], wanted)
        return made.run(no_session)


def statistics(audited):
    """The statistics of partitions by the names of their directories."""
    return {one.path.rpartition("/")[2]: one.statistics for one in audited if one.statistics is not None}


__all__ = ["NOW_MS", "audit", "statistics", "tasks_here"]

"""Which worker of pytest-xdist runs a test: the tests of a file, or of an `xdist_group`, run in one worker.

With `--dist loadgroup` alone, xdist gives each other test to any worker. Both workers then make the fixtures of a file, and they wait for xdist
before each of 12,000 tests.

Groups are handed out first, as they start brokers and Spark, which take long; the others follow by their number of tests. So no worker
has a long group left when the others have ended. The tests with Spark are two groups, by file: as one they take longer than all others
together, and as more they start more sessions.
"""

from __future__ import annotations

import zlib

import pytest

SPARK_GROUPS = 2


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    class ByFile(LoadGroupScheduling):
        def _split_scope(self, nodeid):
            group, file = super()._split_scope(nodeid), nodeid.partition("::")[0]
            if group == "spark":
                return f"spark {zlib.adler32(file.encode()) % SPARK_GROUPS}"
            return file if group == nodeid else group

        def _assign_work_unit(self, node):
            longest = max(self.workqueue, key=lambda scope: (not scope.endswith(".py"), len(self.workqueue[scope])))
            self.workqueue.move_to_end(longest, last=False)
            super()._assign_work_unit(node)

    return ByFile(config, log)

"""A driver of its own, for test_spark_progress.py: tasks that die at their first try, and one that fails it.

Argument: a directory for what was tried. Prints JSON: what the tasks came to, and what a watcher was told.
"""

import json
import os
import signal
import sys
from pathlib import Path

from tests.support.product_spark import JobWatch, run_tasks, session


class Heard:
    def __init__(self):
        self.begun, self.done = [], 0

    def begin(self, work, total_bytes):
        self.begun.append((work, total_bytes))

    def advance(self, size_bytes, subject=""):
        del subject
        self.done += size_bytes


def main(tried):
    def work(item):
        mark = Path(tried) / str(item)
        if item and not mark.exists():
            mark.touch()
            if item == 1:
                raise RuntimeError("the first try fails")
            os.kill(os.getpid(), signal.SIGKILL)
        return item * 2

    heard = Heard()
    with_retries = session("local[2,4]")
    found = run_tasks(with_retries, [0, 1, 2, 3], work, JobWatch(heard, "try", [1000, 100, 10, 1]))
    with_retries.stop()
    print(json.dumps({"found": found, "begun": heard.begun, "done": heard.done}))


if __name__ == "__main__":
    main(sys.argv[1])

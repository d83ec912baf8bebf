"""A driver of its own, for test_spark_progress.py: tasks that die at their first try, one that fails it, one that always dies.

Argument: a directory for what was tried. Prints JSON: what the tasks came to, what a watcher was told, and the error.
"""

import json
import os
import signal
import sys
from pathlib import Path

from tests.support.product import KafkalogError
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
    error = None
    try:
        run_tasks(with_retries, [0, 1], lambda item: item and os.kill(os.getpid(), signal.SIGKILL))
    except KafkalogError as raised:
        error = {"code": raised.exit_code, "message": str(raised)}
    with_retries.stop()
    print(json.dumps({"found": found, "begun": heard.begun, "done": heard.done, "error": error}))


if __name__ == "__main__":
    main(sys.argv[1])

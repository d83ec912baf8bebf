"""A driver of its own, for test_spark_progress.py: tasks that die at their first try, one that fails it, one that always dies.

Argument: a directory for what was tried. Prints JSON: what the tasks came to, what was reported, and what stands for the
tasks that failed.
"""

import json
import os
import signal
import sys
from contextlib import nullcontext
from pathlib import Path

from tests.support.product_spark import Item, on_spark, session


def main(tried):
    def work(value, _):
        mark = Path(tried) / str(value)
        if value and not mark.exists():
            mark.touch()
            if value == 1:
                raise RuntimeError("the first try fails")
            os.kill(os.getpid(), signal.SIGKILL)
        return value * 2

    def dies(value, _):
        return value and os.kill(os.getpid(), signal.SIGKILL)

    heard = []
    with_retries = session("local[2,4]")
    with on_spark(lambda: nullcontext(with_retries)) as map_each:
        items = [Item(0, 1000), Item(1, 100), Item(2, 10), Item(3, 1)]
        found = list(map_each(items, work, advance=lambda size_bytes, _="": heard.append(size_bytes)))
        error = list(map_each([Item(0), Item(1)], dies, failed=lambda item, error: int(error.exit_code)))
    with_retries.stop()
    print(json.dumps({"found": found, "done": sum(heard), "error": error}))


if __name__ == "__main__":
    main(sys.argv[1])

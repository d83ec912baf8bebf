"""A standalone cluster of Spark on loopback, from the PySpark install alone: a master and workers."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
START_SECONDS = 480
STARTED = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED = "Successfully registered with master"


def spark_environment():
    """What the cluster's processes, and the Python workers below them, are started with."""
    from tests.support.product_spark import java_environment

    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        **java_environment(os.environ),
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


class Master(str):
    """The URL of a master."""

    workers = ()


@contextmanager
def cluster(folder, workers=2, before=lambda number: ()):
    """The URL of its master, once all workers have registered; all ends with the block.

    `before` returns the words before the command line of a worker. The processes of the workers are `url.workers`.
    """
    folder.mkdir()
    one = _Processes(folder)
    where = ("--host", "127.0.0.1", "--port", 0, "--webui-port", 0)
    limits = ("--cores", 1, "--memory", "1g", "--work-dir", folder / "work")
    try:
        url = Master(one.wait_for(one.start("master", "org.apache.spark.deploy.master.Master", *where), STARTED)[1])
        worker = ("org.apache.spark.deploy.worker.Worker", *where, *limits, url)
        for log in [one.start(f"worker-{at}", *worker, before=before(at)) for at in range(workers)]:
            one.wait_for(log, REGISTERED)
        url.workers = one.processes[1:]
        yield url
    except BaseException:
        print(told([*one.logs, *folder.glob("work/*/*/stderr")]), file=sys.stderr)
        raise
    finally:
        one.end()


class _Processes:
    def __init__(self, folder):
        import pyspark

        self._folder, self._home = folder, Path(pyspark.__file__).parent
        self.processes, self.logs = [], []

    def start(self, name, *arguments, before=()):
        """A class of Spark's; its log. `before` are words before its command line."""
        log = self._folder / f"{name}.log"
        self.logs.append(log)
        command = [*before, str(self._home / "bin" / "spark-class"), *map(str, arguments)]
        with log.open("wb") as out:
            self.processes.append(
                subprocess.Popen(
                    command,
                    env={**spark_environment(), "SPARK_HOME": str(self._home)},
                    stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                )
            )  # fmt: skip
        return log

    def wait_for(self, log, pattern):
        until = time.monotonic() + START_SECONDS
        while (found := re.search(pattern, log.read_text(errors="replace"))) is None:
            if time.monotonic() > until or any(process.poll() is not None for process in self.processes):
                raise RuntimeError("the cluster does not start")
            time.sleep(0.1)
        return found

    def end(self):
        for process in reversed(self.processes):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def told(logs):
    """The ends of logs, for whoever looks for what went wrong."""
    return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}" for log in logs)

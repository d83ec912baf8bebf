"""A driver of its own, for test_spark_engine_faults.py: something happens to workers in the middle of a change.

Arguments: what (`dies`: the worker is killed, once; `stays`: it goes on for as long as nobody kills it), the file that
says that it was done, what the path ends in that was just renamed then, and a command line.
"""

import os
import signal
import sys
import time
from pathlib import Path

from kafkalog_cli.cli.app import run
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.disk.fs import RealFilesystem


class Disk(RealFilesystem):
    def __init__(self, what, mark, ending):
        super().__init__()
        self._what, self._mark, self._ending = what, mark, ending

    def rename(self, old, new):
        super().rename(old, new)
        if not new.endswith(self._ending):
            return
        if self._what == "stays":
            for number in (signal.SIGHUP, signal.SIGTERM):  # what Java and its Python say when they end
                signal.signal(number, signal.SIG_IGN)
            Path(f"{self._mark}-{os.getpid()}").touch()
            while True:
                time.sleep(1)
        elif not Path(self._mark).exists():
            Path(self._mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(run(sys.argv[4:], Environment(fs=Disk(*sys.argv[1:4]))))

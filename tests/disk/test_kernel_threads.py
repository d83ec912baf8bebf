"""Compiled kernels asked for by many threads at once, in a process that has not loaded them: each gets what works."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOG = ROOT / "docs" / "example" / "mixed-0" / "00000000000000000000.log"
PROGRAM = """
import sys
from threading import Barrier, Thread
from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.disk.kernels import LOADED_ROWS, KernelChoice
from kafkalog_cli.log.reading.read import RecordReader
from kafkalog_cli.log.reading.scan import Scan

def offsets(choice):
    with RealFilesystem().open_read(sys.argv[1]) as file:
        return [
            [int(offset) for offset in block.records.offset]
            for chunk in Scan(file)
            for block in RecordReader().blocks(chunk)
        ]

expected = offsets(KernelChoice(forced=False))
choice, start, found, modules = KernelChoice(forced=True), Barrier(16), [], []

def work():
    start.wait()
    modules.append(choice.compiled(10, LOADED_ROWS))
    found.append(sum(offsets(choice), []))

threads = [Thread(target=work) for _ in range(16)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(found) == 16 and all(one == sum(expected, []) for one in found), found
assert len({id(module) for module in modules}) == 1 and modules[0] is not None
assert choice._plain_rows <= 160
"""


def test_many_threads_at_once():
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, LOG], capture_output=True, text=True, cwd=ROOT, check=False
        )
        assert done.returncode == 0, done.stderr

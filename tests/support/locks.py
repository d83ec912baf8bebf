"""Real processes that hold locks, as a broker or another run would."""

import subprocess
import sys
from contextlib import contextmanager

HOLDER = """
import fcntl, sys
lock = open(sys.argv[1], "r+")
fcntl.lockf(lock, getattr(fcntl, sys.argv[2]), *map(int, sys.argv[3:]))
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held_by_another_process(path, operation="LOCK_EX", *part):
    """The lock file, or so many bytes of it from one on, is held by a process, whose id this gives; as Java's FileChannel.tryLock does it."""
    command = [sys.executable, "-c", HOLDER, str(path), operation, *map(str, part)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        yield holder.pid
        holder.stdin.close()

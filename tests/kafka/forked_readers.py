"""Runs command lines of kafkalog in forks of one process that has imported it: a run costs what it does, no start.

Each line of standard input is JSON: the arguments, and the files for stdout and stderr. Answers: a line with the
process id, and when it has ended, a line with its exit code.
"""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
EVERYTHING = ("verify", "dump-log", "dump-index", "read", "ls", "lookup-time", "lookup-offset")


def serve():
    """Until standard input ends."""
    from tests.support.product import entry

    ended = []
    for line in sys.stdin:
        while ended:
            os.waitpid(ended.pop(), 0)
        arguments, out, err = json.loads(line)
        child = os.fork()
        if not child:
            become(out, err)
            sys.argv = ["kafkalog", *arguments]
            entry.main()
        print(child, flush=True)
        found = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        print(found.si_status if found.si_code == os.CLD_EXITED else -found.si_status, flush=True)
        # The process id stays taken until the next line comes: signals sent meanwhile reach no other process.
        ended.append(child)


def become(out, err):
    """Standard streams of the fork: nothing to read, and two files."""
    for number, (path, flags) in enumerate(((os.devnull, os.O_RDONLY), (out, WRITE), (err, WRITE))):
        os.dup2(os.open(path, flags, 0o600), number)


WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


def import_all(folder):
    """Have each command import its modules, compile nothing: they fail for a path that is not there."""
    from tests.support.product import run

    silent = os.open(os.devnull, os.O_WRONLY)
    kept = [os.dup(number) for number in (1, 2)]
    for number in (1, 2):
        os.dup2(silent, number)
    for command in EVERYTHING:
        run([command, f"{folder}/nothing", *({"lookup-offset": ["1"], "lookup-time": ["1"]}.get(command, []))])
    for number, back in zip((1, 2), kept, strict=True):
        os.dup2(back, number)


@contextmanager
def forked_readers():
    """A function that begins a run: (arguments, stdout's path, stderr's path) -> (process id, stream of exit codes)."""
    server = subprocess.Popen(
        [sys.executable, __file__], env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )

    def begin(arguments, out, err):
        server.stdin.write(json.dumps([arguments, str(out), str(err)]).encode() + b"\n")
        server.stdin.flush()
        return int(read_line(server.stdout)), server.stdout

    try:
        yield begin
    finally:
        server.stdin.close()
        server.wait(240)


def read_line(stream):
    """One line, unbuffered: select then sees the next."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(stream.fileno(), 1)
        if not byte:
            raise RuntimeError("the process that forks readers has ended")
        line += byte
    return line


if __name__ == "__main__":
    import_all("/nonexistent")
    serve()

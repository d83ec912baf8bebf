"""Runs command lines in forks of one process that has imported kafkalog once: a process of its own would cost each 0.3 s.

`python -m tests.conformance.runner` reads a JSON object a line from standard input, {"argv": …, "cwd": …}, and prints one,
{"code": …, "out": …, "err": …}, with the streams as Latin-1.
"""

from __future__ import annotations

import io
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib import import_module
from pathlib import Path

ENVIRONMENT = {"COLUMNS": "120", "NO_COLOR": "1", "TZ": "UTC", "LC_ALL": "C.UTF-8"}


class Forks:
    """The other end: a process that forks for each command line."""

    def __enter__(self):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        environment = {**os.environ, **ENVIRONMENT}
        self._process = subprocess.Popen([sys.executable, "-m", __name__], text=True, env=environment, **pipes)
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait()

    def run(self, argv, cwd):
        """The exit code and the streams of a command line in a directory."""
        self._process.stdin.write(json.dumps({"argv": list(argv), "cwd": str(cwd)}) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def import_everything():
    """Import the modules of kafkalog that need no extra, and what typer imports when it first converts a value."""
    import kafkalog_cli

    for module in pkgutil.walk_packages(kafkalog_cli.__path__, "kafkalog_cli."):
        if ".spark" not in module.name and not module.name.endswith("__main__"):
            with suppress(ImportError):
                import_module(module.name)
    from tests.support.product import COMMANDS, Environment, run

    list(COMMANDS.values())
    run(["ls", "/nowhere"], Environment(stdout=io.BytesIO(), stderr=io.BytesIO()))


def run_in_fork(argv, cwd):
    """Run a command line in a fork; return its exit code and its streams."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            _become_command(argv, cwd, out.fileno(), err.fileno())
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        streams = [os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode("latin-1") for file in (out, err)]
    return {"code": code, "out": streams[0], "err": streams[1]}


def _become_command(argv, cwd, out, err):
    code = 70
    try:
        os.chdir(cwd)
        os.umask(0o022)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.argv = ["kafkalog", *argv]
        from tests.support.product import exit_code

        code = exit_code(argv)
        sys.stdout.flush()
        sys.stderr.flush()
    except SystemExit as end:
        code = end.code
    finally:
        os._exit(code or 0)


def main():
    answers = os.fdopen(os.dup(1), "w")
    questions = os.fdopen(os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    import_everything()
    for line in questions:
        asked = json.loads(line)
        answers.write(json.dumps(run_in_fork(asked["argv"], Path(asked["cwd"]))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()

"""Runs commands in this process, and looks at what they leave: a process of its own would cost each 0.3 s of CPU."""

import base64
import io
import json
import os
import shutil
import stat
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.product import COMMANDS, Environment, run

ROOT = Path(__file__).parents[2]


class Ran(NamedTuple):
    """The exit code of a command, and what it printed."""

    code: int
    out: str
    err: str


WITH_MODULES = """
import json, runpy, sys
try:
    runpy.run_module("kafkalog_cli", run_name="__main__")
except SystemExit as end:
    code = end.code
print("\\n" + json.dumps([code or 0, [*sys.modules]]))
"""


def loaded_modules(*argv):
    """The exit code of a command line in a process of its own, what it prints, and the modules that it has imported."""
    command = [sys.executable, "-c", WITH_MODULES, *map(str, argv)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, check=True)
    printed, _, last = done.stdout.rstrip("\n").rpartition("\n")
    code, modules = json.loads(last)
    return code, printed, set(modules)


class Terminal(io.BytesIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


def kafkalog(*argv, stdin=b"", errors="strict", **environment):
    """Run a command line in the Environment that the keywords give.

    `errors` how bytes that are not UTF-8 are decoded, `stdin` is bytes or a stream.
    """
    streams = {
        "stdout": environment.pop("stdout", None) or io.BytesIO(),
        "stderr": environment.pop("stderr", None) or io.BytesIO(),
        "stdin": io.BytesIO(stdin) if isinstance(stdin, bytes) else stdin,
    }
    given = {name: value for name, value in environment.items() if value is not None or name == "terminal"}
    code = run([*map(str, argv)], Environment(**streams, **given))
    out, err = (streams[name].getvalue().decode(errors=errors) for name in ("stdout", "stderr"))
    assert "internal error" not in err, err
    assert "Traceback" not in err, err
    return Ran(code, out, err)


def json_of(*argv, **environment):
    """(exit code, objects on stdout, objects on stderr) of a command line with `--format json`."""
    code, out, err = kafkalog(*argv, "--format", "json", **environment)
    return code, objects_in(out), objects_in(err)


def options_of(command):
    """The options of a command as typer knows them, with all their names."""
    found = [param for param in COMMANDS[command].params if param.param_type_name == "option"]
    return {name: param for param in found for name in (*param.opts, *param.secondary_opts)}


def writable_copy(source, target):
    """Copy a log directory of the corpus, with permissions to change it; return the copy."""
    shutil.copytree(source, target)
    for path in [target, *target.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return target


HOLD_LOCK = """
import fcntl, sys
lock = open(sys.argv[1], "r+b")
fcntl.lockf(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def a_broker_on(log_dir):
    """Hold the lock of a log directory in another process, as a running broker does."""
    (log_dir / ".lock").touch()
    command = [sys.executable, "-c", HOLD_LOCK, str(log_dir / ".lock")]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline().strip() == "held"
    try:
        yield
    finally:
        holder.communicate()


def objects_in(text):
    """The JSON objects in lines of text."""
    return [json.loads(line) for line in text.splitlines()]


def stored(field):
    """The bytes that a key, a value or a header of machine output stands for; None for null."""
    if field is None:
        return None
    if field["encoding"] == "utf-8":
        return field["data"].encode()
    assert field["encoding"] == "base64"
    return base64.b64decode(field["data"], validate=True)


def tree(root):
    """Bytes, mode and time of the files below a directory, by path, but what kafkalog keeps beside them."""
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns)
        for path in root.rglob("*")
        if path.is_file() and ".kafkalog" not in path.parts and path.name != ".lock"
    }


def everything(root):
    """All facts about a directory and what is below, which a reader may not change; links are not followed."""
    found = {}
    for path in [root, *sorted(root.rglob("*"))]:
        status = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(status.st_mode) and os.access(path, os.R_OK) else None
        link = path.readlink() if path.is_symlink() else None
        facts = (status.st_mode, status.st_uid, status.st_size, status.st_mtime_ns, status.st_ino, status.st_nlink)
        found[str(path)] = (*facts, link, content)
    return found

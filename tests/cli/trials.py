"""What every trial of the commands needs: a log directory to repair, the commands, and what they leave."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from itertools import count
from pathlib import Path

from tests.support.commands import writable_copy
from tests.support.product import IN_A_PROCESS, Environment, RealFilesystem, run

ROOT = Path(__file__).parents[2]
TORN, RECOVERED = "torn-0", "recovered-0"
RETAINS = ["--config", "cleanup.policy=delete", "--config", "retention.bytes=1000"]
WRITERS = {
    "recover": ["recover", "DATA"],
    "recover a partition": ["recover", f"DATA/{TORN}"],
    "recover like a broker": ["recover", "--like-broker", "DATA"],
    "recover indexes": ["recover", "--indexes-only", "DATA"],
    "recover since the recovery point": ["recover", "--since-recovery-point", "DATA"],
    "recover and discard": ["recover", "--discard", "DATA"],
    "undo": ["undo", "DATA", "RUN"],
    "undo a partition": ["undo", f"DATA/{RECOVERED}", "RUN"],
    "purge": ["purge", "--older-than", "0s", "DATA"],
    "roll": ["roll", "--force", f"DATA/{RECOVERED}"],
    "retain": ["retain", f"DATA/{RECOVERED}", *RETAINS],
    "truncate": ["truncate", f"DATA/{RECOVERED}", "--to", "70", "--single-replica"],
    "delete-records": ["delete-records", f"DATA/{RECOVERED}", "--before", "60", "--single-replica"],
}
READERS = {
    "ls": ["ls", "DATA"],
    "verify": ["verify", "DATA"],
    "verify deep": ["verify", "--level", "deep", "DATA"],
    "verify against": ["verify", f"DATA/{TORN}", "--against", f"DATA/{RECOVERED}"],
    "dump-index": ["dump-index", "DATA"],
    "dump-log": ["dump-log", "DATA"],
    "lookup-offset": ["lookup-offset", f"DATA/{TORN}", "60"],
    "salvage": ["recover", "--salvage", "OUT", "DATA"],
    "what recover would do": ["recover", "--dry-run", "DATA"],
    "what a broker would do": ["recover", "--like-broker", "--dry-run", "DATA"],
    "what undo would do": ["undo", "--dry-run", "DATA", "RUN"],
    "what purge would do": ["purge", "--dry-run", "--older-than", "0s", "DATA"],
    "what roll would do": ["roll", "--dry-run", "--force", "DATA"],
    "what retain would do": ["retain", "--dry-run", "--explain", "DATA", *RETAINS],
}
UNPRIVILEGED = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
"""As a root that permissions hold for."""

_COMMANDS = f"""
import io, json, sys
{IN_A_PROCESS}
for line in sys.stdin:
    out, err = io.BytesIO(), io.BytesIO()
    code = run(json.loads(line), Environment(stdout=out, stderr=err, terminal=None))
    print(json.dumps([code, out.getvalue().decode(), err.getvalue().decode()]), flush=True)
"""


@cache
def _prefixed(prefix: tuple[str, ...]) -> subprocess.Popen[str]:
    """Start a process with a prefix that runs each command line it reads, and ends with this process."""
    command = [*prefix, sys.executable, "-c", _COMMANDS]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


class Trial:
    """A log directory with a partition to recover, and one that was recovered; `elsewhere` is where output may go."""

    def __init__(self, corpus: Path, parent: Path, elsewhere: Path) -> None:
        self.data, self._elsewhere, self._outs = parent / "data", elsewhere, count()
        writable_copy(corpus / "crash-torn" / "before", self.data)
        (self.data / "crash-torn-0").rename(self.data / TORN)
        (self.data / TORN / "00000000000000000057.index").unlink()
        shutil.copytree(self.data / TORN, self.data / RECOVERED)
        _, out, _ = self.here(["recover", "--format", "json", f"DATA/{RECOVERED}"], RealFilesystem())
        self.run_id = json.loads(out.splitlines()[0])["run"]
        (self.data / ".lock").unlink()

    def arguments(self, words: list[str]) -> list[str]:
        """The words of a command line; what is written goes to a new directory each time."""
        run_id = getattr(self, "run_id", "")
        names = {"DATA": str(self.data), "RUN": run_id, "OUT": str(self._elsewhere / f"out-{next(self._outs)}")}
        return [re.sub("DATA|RUN|OUT", lambda name: names[name[0]], word) for word in words]

    def command(self, words: list[str], prefix: list[str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run it in this process, or in the process that was started with a prefix."""
        if not prefix:
            code, out, err = self.here(words, RealFilesystem())
            return subprocess.CompletedProcess(words, code, out, err)
        process = _prefixed(tuple(prefix))
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(self.arguments(words)) + "\n")
        process.stdin.flush()
        return subprocess.CompletedProcess(words, *json.loads(process.stdout.readline()))

    def here(self, words: list[str], fs: object) -> tuple[int, str, str]:
        """Run it in this process on a file system: (exit code, stdout, stderr)."""
        out, err = io.BytesIO(), io.BytesIO()
        code = run(self.arguments(words), Environment(stdout=out, stderr=err, fs=fs))
        return code, out.getvalue().decode(), err.getvalue().decode()


def tree(root: Path) -> dict[str, tuple[object, ...]]:
    """All that there is, `.lock` and `.kafkalog` too: kind, mode, owner, content, mtime."""
    found = {}
    for path in [root, *sorted(root.rglob("*"))]:
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and os.access(path, os.R_OK) else None
        found[str(path.relative_to(root))] = (status.st_mode, status.st_uid, content, status.st_mtime_ns)
    return found


def logs(root: Path) -> dict[str, bytes]:
    """The files that are a broker's, and what runs keep; not locks, which have no content."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.name not in (".lock", "lock")
    }


def check_words(code: int, stdout: str, stderr: str, name: str) -> None:
    """No traceback, no bug told, and each error with a word on what to do where something can be done."""
    assert "Traceback" not in stdout + stderr, (name, stderr)
    assert "internal error" not in stderr, (name, stderr)
    assert code in (0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 130), (name, code)

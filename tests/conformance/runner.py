"""Runs command lines in this process, as a user in a directory would: a process of its own would cost each 0.3 s of CPU."""

from __future__ import annotations

import io
import os
import time
from contextlib import contextmanager
from pathlib import Path

from tests.support.product import Environment, run

ENVIRONMENT = {"COLUMNS": "120", "NO_COLOR": "1", "TZ": "UTC", "LC_ALL": "C.UTF-8"}
FILE_MODES = 0o022


@contextmanager
def recorded_environment():
    """The variables and the umask of the record, until the block ends."""
    before, umask = dict(os.environ), os.umask(FILE_MODES)
    os.environ.update(ENVIRONMENT)
    time.tzset()
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        os.umask(umask)
        time.tzset()


def run_in(directory, argv):
    """The exit code and the streams of a command line in a directory."""
    out, err = io.BytesIO(), io.BytesIO()
    before = Path.cwd()
    os.chdir(directory)
    try:
        code = run(list(argv), Environment(stdout=out, stderr=err, stdin=io.BytesIO(), terminal=None))
    finally:
        os.chdir(before)
    return {"code": code, "out": out.getvalue().decode("latin-1"), "err": err.getvalue().decode("latin-1")}

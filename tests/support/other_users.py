"""Commands as another user. Only root can become one, and the Python of these tests may lie where only root can read it."""

import multiprocessing.connection  # noqa: F401 - see as_user
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.commands import kafkalog

NOWHERE = "/nonexistent"


class Done(NamedTuple):
    code: int
    out: str
    err: str


class User(NamedTuple):
    """A user: its number, its first group, its other groups, and the right of root that it lacks."""

    user_id: int
    group_id: int
    groups: tuple[int, ...] = ()
    without: str = ""


@contextmanager
def public_directory():
    """A directory that every user can reach, which the directories of pytest are not."""
    path = Path(tempfile.mkdtemp(prefix="kafkalog-test-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def need_root():
    if os.geteuid() or shutil.which("setpriv") is None:
        pytest.skip("NOT TRIED: needs root, which can become another user, and setpriv")


def kafkalog_as(user, place, *words):
    """Run a command that works in the directory `place` as another user; `PLACE` stands for it in the words."""
    if user.without:
        prefix = ["setpriv", f"--bounding-set=-{user.without}", "--inh-caps=-all"]
        argv = [*prefix, sys.executable, "-m", "kafkalog_cli", *_in(place, words)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        return Done(done.returncode, done.stdout, done.stderr)
    with public_directory() as copy:  # what the command imports as it works is imported then
        shutil.copytree(place, copy / "place", symlinks=True)
        _run(_in(copy / "place", words))
    return as_user(user, _run, _in(place, words))


def as_user(user, work, *arguments):
    """Return what `work` returns in a child process of another user. Whatever it imports must have been imported."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.environ["HOME"] = NOWHERE
            os.setgroups(user.groups)
            os.setresgid(user.group_id, user.group_id, user.group_id)
            os.setresuid(user.user_id, user.user_id, user.user_id)
            answer = work(*arguments)
        except BaseException:
            answer = Done(-1, "", traceback.format_exc())
        with os.fdopen(writing, "wb") as stream:
            pickle.dump(answer, stream)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        answer = pickle.load(stream)
    os.waitpid(child, 0)
    return answer


def _in(place, words):
    return [str(word).replace("PLACE", str(place)) for word in words]


def _run(words):
    return Done(*kafkalog(*words))


def give(place, owner_id, group_id, directory_mode, file_mode):
    """Give a directory and all below it to a user."""
    for path in [place, *place.rglob("*")]:
        os.chown(path, owner_id, group_id)
        path.chmod(directory_mode if path.is_dir() else file_mode)

"""Prefixes of command lines for what containers and timers lack: a name, a home, a directory that can be written to."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

NAMELESS_UID = 2_000_012_345
_READS_ALL = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
"""A root that gives its other rights up still reads the Python of these tests, which may be in /root."""
_READ_ONLY = """
mount --make-rprivate / || exit 99
for place in $(awk '{print $2}' /proc/mounts | sort -r); do
  case $place in /proc*|/sys*|/dev/pts*) ;; *) mount -o remount,bind,ro "$place" 2>/dev/null ;; esac
done
for place in "$PWD" /tmp /var/tmp; do [ -w "$place" ] && exit 99; done
exec "$@"
"""


def nameless(*words):
    """The words as a command of a user without passwd entry, HOME and any other variable but PATH; or skip."""
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("another user cannot be taken here: that needs root and setpriv")
    user = [f"--reuid={NAMELESS_UID}", f"--regid={NAMELESS_UID}", "--clear-groups", *_READS_ALL]
    return ["setpriv", *user, "env", "-i", f"PATH={os.environ['PATH']}", f"PYTHONPATH={Path.cwd()}", *words]


def read_only(*words):
    """The words as a command for which every file system is read-only; or skip."""
    prefix = ["unshare", "--mount", *(["--map-root-user"] if os.getuid() else []), "sh", "-c", _READ_ONLY, "sh"]
    if shutil.which("unshare") is None or subprocess.run([*prefix, "true"], cwd="/", check=False).returncode != 0:
        pytest.skip("file systems cannot be made read-only here: that needs root, and unshare")
    return [*prefix, *words]


def kafkalog_command(*words):
    """The words of a command line of the kafkalog of these tests, in a process of its own."""
    return [sys.executable, "-m", "kafkalog_cli", *map(str, words)]

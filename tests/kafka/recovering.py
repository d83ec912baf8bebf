"""`kafkalog recover` as users run it, and what a broker says of log directories that nobody recovered."""

import json
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support import commands

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
HOLDER = """
import sys
from tests.support.product import LockPolicy, RealFilesystem, lock_log_dir
with lock_log_dir(RealFilesystem(), sys.argv[1], LockPolicy()):
    print("held", flush=True)
    sys.stdin.read()
"""
REPAIRS = re.compile(
    r"Found invalid messages|Corruption found|[Cc]orrupt|Could not find offset index|orphaned index|[Tt]runcat"
    r"|from interrupted swap|Recovering file|Found invalid offset|Deleting (all )?segment|Split segment"
    r"|Failed to load producer snapshot|Deleting .*non-empty|marked stray|stray log"
)
"""What LogLoader, LogSegment, UnifiedLog and LogManager say of what they repair, at any level."""
UNCLEAN = re.compile(r"handleBrokerUncleanShutdown: changing|using an unclean election")
"""What a controller says when a broker comes back that has not stopped cleanly (KIP-966); not what it says in replay."""


class Recovered(NamedTuple):
    code: int
    partitions: dict
    """The `recovery` object of each partition directory's name."""
    changed: int
    stderr: str


def kafkalog(*arguments, stdin=b""):
    """Run a command in this process: a process for each of them costs half a second of CPU."""
    return commands.kafkalog(*arguments, stdin=stdin, terminal=None)


@contextmanager
def our_lock(data):
    """A process of ours has the lock of a log directory as its writers have it."""
    command = [sys.executable, "-c", HOLDER, str(data)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as one:
        assert one.stdout.readline() == "held\n"
        yield
        one.stdin.close()


def recover(*arguments):
    done = kafkalog("recover", "--format", "json", *arguments)
    objects = [json.loads(line) for line in done.out.splitlines()]
    partitions = {Path(one["path"]).name: one for one in objects if one["type"] == "recovery"}
    return Recovered(done.code, partitions, objects[-1]["changed"], done.err)


def complaints(entries, topics):
    """topic: the log entries that tell of a repair or of trouble with its partition."""
    named = {topic: re.compile(rf"(?<![\w-]){topic}-0(?![\w-])") for topic in topics}
    return {
        topic: found
        for topic, name in named.items()
        if (
            found := [
                text
                for level, text in entries
                if name.search(text) and (level in {"WARN", "ERROR"} or REPAIRS.search(text))
            ]
        )
    }


def unclean(entries):
    return [text.split("\n")[0] for _, text in entries if UNCLEAN.search(text)]

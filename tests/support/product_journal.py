"""The door to how a change reaches the disk: its journal and undo, the clean-shutdown file, publishing. See product.py."""

# ruff: noqa: E402, F401, I001 names for other files, in the order of their purposes

# A change of one partition with its run, which tests cut off at each call.
from kafkalog_cli.change.checkpoint_lines import change_lines
from kafkalog_cli.log.log_dir import LineEdit
from kafkalog_cli.change.journal_undo import check_undo, undo
from kafkalog_cli.change.manifest import RunInfo, RunState, read_manifest, snapshot
from kafkalog_cli.change.runs import MANIFEST
from kafkalog_cli.disk.names import FileKind

# Files that are replaced at once, and those that a user names.
from kafkalog_cli.disk.durable import new_file, replace_file, temporary_of
from kafkalog_cli.disk.named_places import check_named_file

# The clean-shutdown file, which a run holds while it works.
from kafkalog_cli.change.clean_marker import HELD_MARKER, hold_marker, read_held_marker, release_marker

# New partitions and directories of output, which get their places all at once.
from kafkalog_cli.change.new_partition import make_partition
from kafkalog_cli.change.new_partitions import NewPartitions, StagedPartition, record_of
from kafkalog_cli.change.output_directory import ComingFile, OutputDirectory, RunRecord, record_bytes
from kafkalog_cli.disk.lock import LockPolicy, lock_partition
from kafkalog_cli.disk.posix_lock import IMPORT_BYTE


def apply(fs, directory, changes, **how):
    """Make changes under the partition's lock, as a command does."""
    with lock_partition(fs, directory, LockPolicy()):
        return journal.apply(fs, directory, changes, **how)


# A command or a call of the library as in a process of its own.
from collections import deque
from contextlib import contextmanager
from functools import partial
from itertools import count
from unittest import mock

from kafkalog_cli.change import journal, run, runs
from kafkalog_cli.cli import import_
from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.library import appending
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.ops.change.append.batching import Writing
from kafkalog_cli.ops.move.importing import job
from kafkalog_cli.ops.move.importing.sources import input_files
from kafkalog_cli.ops.call import observer
from kafkalog_cli.ops.call.options import Context, VerbOptions


@contextmanager
def as_in_a_process(token):
    """Runs are numbered from 1 on, and have `token` in their names."""
    with (
        mock.patch("secrets.token_hex", return_value=token),
        mock.patch.object(run, "_orders", count(1)),
        mock.patch.object(runs, "_RECENT_NAMES", deque()),  # else a hundred names are tried, as this token is no chance
    ):
        yield


@contextmanager
def library_on(fs, now_ms):
    """The library works on the file system `fs`, at this time."""
    with (
        mock.patch.object(observer, "Context", partial(Context, fs, lambda: now_ms)),
        mock.patch.object(appending, "Context", partial(Context, now_ms=lambda: now_ms)),
    ):
        yield


def append_by_library(fs, path, table, *, config, batch_bytes=None, topic_id=None):
    """PartitionLog.append on a file system; `topic_id`: of a partition to make."""
    options = VerbOptions(config=config, single_replica=True)
    to = open_partition(fs, path) if topic_id is None else appending.new_partition(fs, path, topic_id)
    writing = Writing() if batch_bytes is None else Writing(batch_bytes=batch_bytes)
    return appending.append_arrow(fs, to, table, writing, options)


def import_on(monkeypatch, fs):
    """`import` reads its input from the real disk and writes to `fs`; its tasks run here, one after the other."""
    monkeypatch.setattr(import_, "input_files", lambda _, paths, **_more: input_files(RealFilesystem(), paths))
    monkeypatch.setattr(job, "RealFilesystem", lambda: fs)


# Bugs that a test plants in a change, to see that it finds them.
from kafkalog_cli.change import growing_run, journal_undo, new_partition, removal
from kafkalog_cli.disk import durable
from kafkalog_cli.ops.change import apply_changes
from kafkalog_cli.ops.check.recover import salvage
from kafkalog_cli.ops.change.retain import free
from kafkalog_cli.ops.call.interruptions import AGAIN_SECONDS, Interruptions
from kafkalog_cli.ops.change.undo import plan as undo_plan

_BUGS = {
    "announce a file of a growing run": (growing_run.GrowingRun, "announce"),
    "sync a growing run": (growing_run.GrowingRun, "sync"),
    "sync the directory of a new partition": (new_partition, "sync_directory"),
    "sync names": (durable.NameChanges, "sync"),
    "sync a file": (durable, "sync"),
    "sync a file of the journal": (journal, "sync"),
    "take back a change that failed": (run, "restore"),
    "take back a change that was interrupted": (run.Run, "take_back"),
    "restore in an undo": (journal_undo._Restorer, "restore"),
    "remove what an undone run keeps": (journal_undo, "_remove_kept"),
    "undo": (undo_plan, "undo"),
    "suffix of a salvage that is not done": (salvage, "PARTIAL"),
    "tell that segments were removed": (free, "unfinished"),
    "tell that a removal began": (removal, "partly_removed"),
    "find the runs before this one": (apply_changes, "followed_runs"),
    "wait with an interrupt for a safe point": (Interruptions, "request"),
}


def plant_bug(monkeypatch, name, replacement):
    """Replace one step of a change for the time of a test."""
    monkeypatch.setattr(*_BUGS[name], replacement)


WRITERS_IN_A_PROCESS = """
from kafkalog_cli.change import journal
from kafkalog_cli.change import journal_undo
from kafkalog_cli.cli import app, changes
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.ops.change import roll, undo
from kafkalog_cli.ops.change.append import verb
from kafkalog_cli.ops.check.recover import recover
from kafkalog_cli.ops.change.retain import retain
"""
"""For the source of a process that is killed at work: what it would else import then."""

"""Finds files and directories that the user of the log directory may not open, whoever verifies them."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafkalog_cli.disk.fs import FileStatus, Filesystem
from kafkalog_cli.disk.names import OWN_DIRECTORY, FileKind, WorkState, classify_file
from kafkalog_cli.disk.ownership import is_mounted_read_only
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.log.log_dir import OFFSET_CHECKPOINTS
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.check.checks.diagnose import Finding, finding
from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind, StartAction
from kafkalog_cli.ops.look.listing.broker_user import ALL, READ, READ_WRITE, BrokerUser, broker_user
from kafkalog_cli.ops.look.listing.root import LogDirRoot
from kafkalog_cli.ops.steps import Argv, path_word, together


class _Effect(NamedTuple):
    text: str
    at_start: tuple[StartAction, ...] = ()


_DOES_NOT_START = _Effect("a broker does not start", (StartAction.DOES_NOT_START,))
_TAKES_OFFLINE = _Effect(
    "a broker takes the whole log directory offline when it starts, and stops if it has no other",
    (StartAction.TAKES_OFFLINE,),
)
_CANNOT_DELETE = _Effect("a broker starts, but cannot delete the partition with its topic")
_IS_UNCLEAN = _Effect("a broker starts as after an unclean stop: it leaves every in-sync replica set")
_OPENED_FOR_WRITING = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
_AT_ROOT = {
    FileKind.META_PROPERTIES: (READ, _DOES_NOT_START),
    FileKind.BOOTSTRAP_SNAPSHOT: (READ, _DOES_NOT_START),
    FileKind.LOCK: (READ_WRITE, _TAKES_OFFLINE),
    FileKind.CLEAN_SHUTDOWN: (READ, _IS_UNCLEAN),
    **dict.fromkeys(OFFSET_CHECKPOINTS, (READ, _TAKES_OFFLINE)),
}
"""The rights that a broker needs to the files at the root, and what it does without them (tried with Kafka 4.2.0)."""


def root_permissions(fs: Filesystem, root: LogDirRoot) -> Iterator[Finding]:
    """Yield the findings about the log directory itself and the files at its root."""
    if is_mounted_read_only(root.path):
        yield finding(FindingKind.MOUNTED_READ_ONLY, root.path, "the file system is mounted read-only")
    directory = fs.status(root.path)
    if root.user is None or directory is None:
        return
    yield from _lacking(root.user, directory, ALL, _TAKES_OFFLINE)
    for file in root.files:
        name = classify_file(file.name)
        if name.state is WorkState.IN_PLACE and name.kind in _AT_ROOT:
            yield from _lacking(root.user, file, *_AT_ROOT[name.kind])


def partition_permissions(fs: Filesystem, partition: Partition, root: LogDirRoot | None) -> Iterator[Finding]:
    """Yield the findings about a partition's directory and its files."""
    if root is not None and root.user is None:
        return
    directory = fs.status(partition.path)
    user = broker_user(directory, partition.entries) if root is None else root.user
    if user is None or directory is None:
        return
    yield from _lacking(user, directory, ALL, _TAKES_OFFLINE)
    for entry in partition.entries:
        if entry.is_directory:
            yield from _lacking(user, entry, ALL, _CANNOT_DELETE)
            if entry.name == OWN_DIRECTORY:
                for run in _directories_in(fs, entry.path):
                    yield from _lacking(user, run, ALL, _CANNOT_DELETE)
        elif entry.is_file:
            # LogLoader fails at any file that it cannot read, and opens logs and indexes for writing too.
            is_written = classify_file(entry.name).kind in _OPENED_FOR_WRITING and not entry.name.endswith(
                WorkState.DELETED.value
            )
            yield from _lacking(user, entry, READ_WRITE if is_written else READ, _TAKES_OFFLINE)


def _directories_in(fs: Filesystem, path: str) -> Iterable[FileStatus]:
    try:
        return [entry for entry in fs.list_directory(path) if entry.is_directory]
    except KafkalogError:  # whoever verifies may not look
        return []


def _lacking(user: BrokerUser, status: FileStatus, rights: int, effect: _Effect) -> Iterator[Finding]:
    """Yield a finding if `user` lacks rights to a file or directory. `effect` is what a broker of this user does."""
    if user.may(status, rights):
        return
    verb = "change" if status.is_directory else "read and write" if rights == READ_WRITE else "read"
    what = f"owner {status.owner_id}, group {status.group_id}, mode {status.mode:04o}"
    message = f"user {user.user_id}, whose log directory it is, may not {verb} it: {what}"
    commands: list[Argv] = []
    if status.owner_id != user.user_id:
        commands.append(("sudo", "chown", str(user.user_id), path_word(status.path)))
    if rights & ~(status.mode >> 6):
        commands.append(("sudo", "chmod", f"u+{'rwx' if status.is_directory else 'rw'}", path_word(status.path)))
    steps = (together(commands, "permits it", "if the broker runs as this user"),)
    yield finding(
        FindingKind.NOT_PERMITTED,
        status.path,
        message,
        broker_effect=effect.text,
        steps=steps,
        at_start=effect.at_start,
    )

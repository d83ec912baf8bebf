"""Checks of files and directories that options name for writing, and files that replace them in one step.

No file is written through a symbolic link.
"""

import os

from kafkalog_cli.disk.directory_contents import is_name_of_kafka
from kafkalog_cli.disk.durable import (
    is_link,
    is_no_room,
    replace_file,
)
from kafkalog_cli.disk.fs import LockHandle, WritableFilesystem
from kafkalog_cli.disk.lock import check_link, log_dir_of
from kafkalog_cli.disk.names import moved_from_root
from kafkalog_cli.disk.ownership import NotGiven
from kafkalog_cli.errors import KafkalogError, Locked, NoSpace, Refused, UsageError


def check_no_stream(path: str) -> None:
    """Raise UsageError for `-`, which means standard output to many programs: no option for output takes it."""
    if path == "-":
        reason = "- would be standard output, where this option does not write"
        raise UsageError(reason=f"{reason}; ./- is a file or directory of this name")


def check_named_file(fs: WritableFilesystem, path: str) -> None:
    """Check that a file may be written or replaced at `path`.

    Raises Refused if `path` is a link or not a regular file, has the name of a file of Kafka, or is in a directory that
    `check_named_directory` refuses. Raises as `check_no_stream`.
    """
    check_no_stream(path)
    full_path = os.path.abspath(path)  # noqa: PTH100 - links are not followed
    found = fs.status(full_path)
    if is_link(fs, full_path, found):
        reason = "it is a symbolic link, and no file is written through a link; give the path of the file itself"
        raise Refused(path=path, reason=reason)
    if found is not None and not found.is_file:
        raise Refused(path=path, reason="it is not a regular file, and is not replaced; give another path")
    if is_name_of_kafka(os.path.basename(full_path)):  # noqa: PTH119
        raise Refused(path=path, reason="a broker takes a file of this name for one of its own; give another name")
    check_named_directory(fs, os.path.dirname(full_path))  # noqa: PTH120


def lock_named_file(fs: WritableFilesystem, path: str, user: str) -> LockHandle:
    """Check a file as `check_named_file` does, and lock it for one `user` at a time, by the file `path`.lock.

    Raises Locked too, and OSError if locks do not work.
    """
    check_named_file(fs, path)
    beside = f"{os.path.abspath(path)}.lock"  # noqa: PTH100
    check_named_file(fs, beside)
    try:
        return fs.lock(beside, first_byte=0, exclusive=True)
    except BlockingIOError as error:
        raise Locked(path=beside, reason=f"another {user} uses this file") from error


def replace_output(fs: WritableFilesystem, path: str, content: bytes) -> None:
    """Write or replace a file for the user of this process, which no broker opens. Raises as `replace_file`.

    A file that is replaced keeps mode and owner, as far as permitted.
    """
    replaced = None if fs.status(path) is None else fs.attributes(path)
    try:
        replace_file(fs, path, content, replaced)
    except NotGiven:
        assert replaced is not None
        replace_file(fs, path, content, replaced._replace(owner_id=os.geteuid()))


def replace_named_file(fs: WritableFilesystem, path: str, content: bytes, what: str) -> None:
    """Write a file for other programs to read, or replace it, which keeps mode and owner as far as permitted.

    `what` names the content in errors. Raises NoSpace, KafkalogError, SyncFailed.
    """
    full_path = os.path.abspath(path)  # noqa: PTH100 - links are not followed
    try:
        replace_output(fs, full_path, content)
    except OSError as error:
        reason = f"the {what} cannot be written"
        if is_no_room(error):
            raise NoSpace(path=path, reason=reason) from error
        raise KafkalogError(reason=f"{path}: {reason}: {error.strerror}") from error


def check_new_file(fs: WritableFilesystem, path: str, command: str) -> None:
    """Check the --output path of a command that overwrites nothing, as `check_named_file` does.

    Raises UsageError if `path` exists already, and what `check_named_file` raises.
    """
    found = fs.status(os.path.abspath(path))  # noqa: PTH100
    if found is not None and not found.is_symlink:
        raise UsageError(reason=f"--output {path} already exists, and {command} overwrites nothing")
    check_named_file(fs, path)


def check_new_directory(fs: WritableFilesystem, path: str) -> None:
    """Check that a directory may be made at `path`.

    Raises Refused for a link there, and as `check_no_stream` and `check_named_directory`.
    """
    check_no_stream(path)
    full_path = os.path.abspath(path)  # noqa: PTH100 - links are not followed
    if is_link(fs, full_path, fs.status(full_path)):
        raise Refused(
            path=path,
            reason=f"it is a symbolic link, and nothing is made through a link; {_moved_away(fs, path)} moves it away",
        )
    check_named_directory(fs, os.path.dirname(full_path))  # noqa: PTH120


def _moved_away(fs: WritableFilesystem, link: str) -> str:
    """Return the command that moves a link away: a broker takes no link to a directory with another name."""
    target = fs.status(os.path.realpath(link))
    return moved_from_root(link, is_directory=target is not None and target.is_directory)


def check_output_directory(fs: WritableFilesystem, path: str) -> None:
    """Check a directory for output, which is made if it is missing: a broker has no other directories in its own.

    Raises Refused for a new directory in a log directory, and as `check_no_stream` and `check_named_directory`.
    """
    check_no_stream(path)
    check_named_directory(fs, path)
    log_dir = None if fs.status(path) is not None else log_dir_of(fs, os.path.realpath(path))
    if log_dir is not None:
        reason = f"a broker does not start with such a directory in the log directory {log_dir}"
        raise Refused(path=path, reason=f"{reason}; give a directory elsewhere")


def check_named_directory(fs: WritableFilesystem, path: str) -> None:
    """Check that each link on the way to a directory belongs to root, the user of this process or its target's owner.

    Raises Refused for other links and for dangling links.
    """
    place = os.path.abspath(path)  # noqa: PTH100 - links are not followed
    while place != "/":
        if is_link(fs, place, fs.status(place)):
            real = os.path.realpath(place)
            if fs.status(real) is None:
                raise Refused(path=place, reason="it is a symbolic link to nothing; give the directory by its own path")
            check_link(fs, place, real)
        place = os.path.dirname(place)  # noqa: PTH120

"""Exception classes and exit codes, for mistakes of the caller and for refusals of the machine.

Damage in a log is never an exception: it is a `kafkalog_cli.format.fault.Fault`, a value.
The docstring of an error class is its message template; the comment beside its name states when it is raised. The
command returns its `exit_code` if nothing else went wrong. Each error has one code, if not its own, then that of its
base class. The man page of a command lists the codes that it has.
"""

import errno
import os
import re
from collections.abc import Iterable, Set
from enum import IntEnum, unique


@unique
class ExitCode(IntEnum):
    """Exit codes of the kafkalog commands (see EXIT STATUS in the man pages)."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    WARNINGS = 3
    CORRUPTION = 4
    PARTIAL = 5
    NOT_FOUND = 10
    LOCKED = 11
    UNSUPPORTED = 12
    NO_SPACE = 13
    REFUSED = 14
    INTERRUPTED = 130


def counted(number: int, one: str, many: str = "") -> str:
    """Return `number` with its noun; `many` is needed for a plural that is not `one` with an s."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def shell_word(text: str) -> str:
    """Return `text` as one word of a printed command that a user may paste.

    Every name in such a command is quoted here. A name with a leading dash becomes a path, so that it is not taken as
    an option. Control characters and backticks become escapes of bash, zsh and ksh. Another shell takes the escapes as
    the name of a file that does not exist.
    """
    return as_typed(f"./{text}" if text.startswith("-") else text)


def as_typed(word: str) -> str:
    """Quote a word that the user typed as `shell_word` does, but keep a leading dash: the word may be an option."""
    if "`" not in word and word.isprintable():
        from shlex import quote

        return quote(word)
    return f"$'{''.join(map(_escape, word))}'"


def _escape(character: str) -> str:
    if character.isprintable() and character not in "`'\\":
        return character
    how = "surrogateescape" if "\udc80" <= character <= "\udcff" else "surrogatepass"
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", how))


def did_you_mean(word: str, known: Iterable[str], prefix: str = "") -> str:
    """Return a question with the known words that begin with `word` or resemble it; "" if there are none.

    `prefix` is printed before each of them.
    """
    from difflib import get_close_matches

    names = list(dict.fromkeys(known))
    bare = word.lstrip("-")
    close = [name for name in names if bare and name.lstrip("-").startswith(bare)][:3]
    close = close or get_close_matches(word, names, 2)
    return f"Did you mean {' or '.join(prefix + name for name in close)}?" if close else ""


class KafkalogError(Exception):
    """{reason}"""

    exit_code: ExitCode = ExitCode.FAILURE
    has_no_partition = False
    """Whether the path is in a partition that may not be there, so that no command for it can be the next step."""

    def __init_subclass__(cls, exit_code: ExitCode | None = None) -> None:
        if exit_code is not None:
            cls.exit_code = exit_code

    def __init__(self, **details: object) -> None:
        self.details = details
        words = {f"{name}_word": shell_word(str(value)) for name, value in details.items()}
        shown = {**details, **words} if details.get("path") != "" else {**details, **words, "path": "''"}
        super().__init__((type(self).__doc__ or "{reason}").format(**shown))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the error with its details; the method of `Exception` would keep only the message."""
        return error_saying, (type(self), str(self), self.details, _number_of(self))


def error_saying(
    kind: "type[KafkalogError]", message: str, details: "dict[str, object] | None" = None, number: int | None = None
) -> KafkalogError:
    """Return an error with a known message; its details may be lost. `number` is the errno of the system's error."""
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    error.details = details or {}
    if number is not None:
        error.__cause__ = OSError(number, os.strerror(number))
    return error


def error_on(host: str, error: KafkalogError) -> KafkalogError:
    """Return the error of another host with the host's name."""
    text, path = str(error), error.details.get("path")
    message = f"{host}:{text}" if path is not None and text.startswith(str(path)) else f"{host}: {text}"
    return error_saying(type(error), message, {**error.details, "host": host}, _number_of(error))


class UsageError(KafkalogError, exit_code=ExitCode.USAGE):  # an option or an argument is wrong
    """{reason}"""


class PathNotFound(KafkalogError, exit_code=ExitCode.NOT_FOUND):  # the user named a path that is not there
    """{path}: no such file or directory"""


class PathMisspelt(PathNotFound):  # there is a path with a name like it
    """{path}: no such file or directory. {question}"""


class HostMissing(KafkalogError, exit_code=ExitCode.PARTIAL):  # a host's disks were not read, or not all of them
    """{reason}"""


class NotKafkaLayout(KafkalogError, exit_code=ExitCode.NOT_FOUND):  # a path is not what the command works on
    """{path}: {reason}"""


class NothingSelected(KafkalogError, exit_code=ExitCode.NOT_FOUND):  # nothing fits the options
    """{reason}"""


class UnsupportedFormat(KafkalogError, exit_code=ExitCode.UNSUPPORTED):  # a file that kafkalog does not support here
    """{path}: {reason}"""


class OffsetOutOfRange(KafkalogError):  # the log does not have the offset that the user wants
    """{path}: {what} is outside the log, valid range is {first} to {last}"""


class InRemoteStorage(OffsetOutOfRange):  # a broker moved the segment with this offset to remote storage
    """{path}: {what} is in the remote storage of this tiered log, offsets {first} to {last} are here"""


class NoRecordAtTime(OffsetOutOfRange):  # the log does not have the time that the user wants
    """{path}: no record is at or after {what}"""


class AfterLastTime(NoRecordAtTime):  # the time is after all records
    """{path}: no record is at or after {what}: the largest timestamp is {newest}"""


class NoTimestamps(NoRecordAtTime):  # no time can be found in the log
    """{path}: {what} finds no record: no record has a timestamp"""


class BadInput(KafkalogError):  # records or a file that the user gives cannot be taken
    """{path}: {reason}"""


class NotRecords(BadInput, exit_code=ExitCode.USAGE):  # an object has fields that no record has
    """{path}: {reason}"""


class Unreadable(KafkalogError):  # a file or directory cannot be read, or has too much to be read
    """{path}: {reason}"""


class NotLookedUp(Unreadable):  # the path itself, or one above it, cannot be looked up
    """{path}: {reason}"""

    has_no_partition = True


class DamagedLog(KafkalogError, exit_code=ExitCode.CORRUPTION):  # damage where the caller wants an exception
    """{path}: at byte {position}: {message}"""


class DamagedTail(DamagedLog, exit_code=ExitCode.WARNINGS):  # the same at the end of a log, as after a crash
    """{path}: at byte {position}: {message}"""


class NoSpace(KafkalogError, exit_code=ExitCode.NO_SPACE):  # the disk or a quota is full
    """{path}: no space left on the device: {reason}"""


class NoSpaceToKeep(NoSpace):  # there is no room for the copies of the bytes that a repair cuts
    """{path}: no space left on the device: {reason}; bytes that are cut are copied first, unless --discard is given"""


class NoSpaceToRetain(NoSpace):  # there is no room for what retention writes before it removes segments
    """{path}: no space left on the device: {reason}; with --free-bytes SIZE, the oldest segments go before anything is written"""  # noqa: E501


class ClusterError(KafkalogError):  # the cluster that replay sends to fails or refuses
    """{cluster}: {reason}"""


class NotSent(ClusterError):  # the cluster did not acknowledge a record
    """{path}: the record of offset {offset} was not acknowledged by {cluster}: {reason}; the same command continues there"""  # noqa: E501


class Locked(KafkalogError, exit_code=ExitCode.LOCKED):  # a broker or another kafkalog has the lock
    """{path}: locked: {reason}"""


class Refused(
    KafkalogError, exit_code=ExitCode.REFUSED
):  # a rule of ops/change/refusals.py applies, or the log has changed
    """{path}: refused: {reason}"""


class Skipped(Refused):  # a rule leaves a partition out of a run over several
    """{path}: skipped: {reason}"""


class NotChanged(KafkalogError):  # a change failed or was not wanted before it began
    """{path}: nothing was changed: {reason}"""


class HalfChanged(KafkalogError):  # a change failed half way, and its journal remains
    """{path}: stopped half way: {reason}; `kafkalog undo {path_word} {run_word}` restores the earlier state"""


class PartlyRemoved(KafkalogError):  # a removal of files failed half way
    """{path}: not all files were removed: {reason}; repeat the command to remove the rest"""


class HalfDiscarded(KafkalogError):  # a change without a journal failed half way
    """{path}: stopped half way: {reason}; the removed bytes were not kept, so that undo is not possible; once the disk works, repeat the command, and then `kafkalog recover {path_word}`"""  # noqa: E501


class PartitionLeft(KafkalogError):  # an append failed after it had made its partition
    """{path}: this partition was made, and stays: {reason}; repeat the command to continue"""


class RolledOnly(KafkalogError):  # an erasure failed after it had rolled the active segment
    """{path}: the active segment was rolled, and no record is erased yet: {reason}; repeat the command to continue"""


class NotRecorded(KafkalogError):  # the checkpoints failed after segments were removed
    """{path}: segments were removed, but the files that name them could not be updated: {reason}; once the disk works, `kafkalog recover {path_word}` updates them"""  # noqa: E501


class HalfPublished(KafkalogError):  # the moves failed after a run's commit
    """{path}: the run is committed, but not all of its files are in their places: {reason}; repeat the command to finish"""  # noqa: E501


class NotImported(KafkalogError):  # an import failed before its commit
    """{path}: nothing was imported: {reason}; the next import removes what is left of this run"""


class RecordNotGone(KafkalogError):  # the last sync of a published run failed
    """{path}: all files are in their places, but the removal of the run's record may not have reached the disk: {reason}; nothing has to be done: a record that comes back is removed by the next run"""  # noqa: E501


class NotSame(KafkalogError, exit_code=ExitCode.CORRUPTION):  # what was written is not what was read
    """{path}: {reason}"""


class MarkerLeftAway(KafkalogError):  # the marker failed after a change
    """{path}: done, but .kafka_cleanshutdown could not be restored: {reason}; without it a broker recovers all partitions when it starts, and leaves every in-sync replica set; once the disk works, `{command}` {effect}"""  # noqa: E501


class MarkerKept(KafkalogError):  # the marker failed, and there was no change
    """{path}: no log was changed, but .kafka_cleanshutdown could not be restored: {reason}; without it a broker recovers all partitions when it starts, and leaves every in-sync replica set; once the disk works, `kafkalog undo {partition_word} {run_word}` restores it"""  # noqa: E501


class SyncFailed(KafkalogError):  # fsync failed: nobody knows what is on the disk
    """{path}: the written data may not have reached the disk: {reason}"""


class SyncFoundNoSpace(SyncFailed, exit_code=ExitCode.NO_SPACE):  # fsync failed because the disk is full
    """{path}: the written data may not have reached the disk: {reason}"""


NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""Error numbers of a full disk and of a used quota."""
_OF_PERMISSIONS = (errno.EACCES, errno.EPERM)
STEPS_AFTER_SYSTEM_ERRORS = {
    errno.EROFS: "mount the file system read-write; commands that only read still work: ls, verify, --dry-run, and"
    " recover --salvage to another disk",
    errno.ENOSPC: "make room, or write to another disk",
    errno.EDQUOT: "the quota is used up: raise it, or make room",
    errno.EIO: "the device fails: copy the readable data to another disk before anything else",
}
_SALVAGE = "`kafkalog recover {word} --salvage salvaged`, in a directory of the other disk"
_WHAT_TO_FREE = (
    "`kafkalog purge {word} --older-than 0s` removes what earlier runs keep for undo, and"
    " `kafkalog ls {log_dir} --freeable` shows what retention and compaction would free"
)
STEPS_IN_PARTITIONS = {
    errno.EROFS: "mount the file system read-write; commands that only read still work: `kafkalog verify {word}`, and "
    + _SALVAGE,
    errno.ENOSPC: f"make room: {_WHAT_TO_FREE}",
    errno.EDQUOT: f"the quota is used up: raise it, or make room: {_WHAT_TO_FREE}",
    errno.EIO: f"{STEPS_AFTER_SYSTEM_ERRORS[errno.EIO]}: {_SALVAGE}",
}
"""More exact steps, by the error's number, for a path in the directory of a partition."""

_PARTITION = r"(?s)((?:(?!/\.kafkalog/).)*-\d+)(?:/(?:\.kafkalog(?:/.*)?|[^/]*(?:\.|checkpoint)[^/]*)?)?"
"""Matches the directory of a partition, or a file in it; the group is the directory.

The directory of a run in `.kafkalog` may end with a number too.
"""


def next_step(error: BaseException) -> str:
    """Return the next step of `error`, or after an error of the system among its causes; "" if none is known."""
    if isinstance(error, KafkalogError) and "next_step" in error.details:
        return str(error.details["next_step"])
    number = _number_of(error)
    if number is None:
        return ""
    path = error.details.get("path") if isinstance(error, KafkalogError) else getattr(error, "filename", None)
    partition = re.fullmatch(_PARTITION, os.fsdecode(path)) if isinstance(path, (str, bytes)) else None
    is_gone = isinstance(error, KafkalogError) and error.has_no_partition
    if number in _OF_PERMISSIONS:
        return _step_to_permission(os.fsdecode(path) if isinstance(path, (str, bytes)) else None)
    if partition is None or is_gone or number not in STEPS_IN_PARTITIONS:
        return STEPS_AFTER_SYSTEM_ERRORS[number]
    return STEPS_IN_PARTITIONS[number].format(
        word=shell_word(partition[1]),
        log_dir=shell_word(os.path.dirname(partition[1]) or "."),  # noqa: PTH120
    )


def _step_to_permission(path: str | None) -> str:
    """Return the next step where this user may not do something with `path`, which need not exist."""
    place = path or "."
    while place not in {"/", "."} and not os.path.lexists(place):
        place = os.path.dirname(place) or "."  # noqa: PTH120
    user_id, directory = os.geteuid(), os.path.dirname(place) or "."  # noqa: PTH120
    try:
        owner_id, above_id = os.lstat(place).st_uid, os.lstat(directory).st_uid
    except OSError:  # a directory above may not be searched
        owner_id = above_id = -1
    if owner_id == user_id:
        return f"it belongs to this user, whom its mode keeps out: `chmod u+rwX {shell_word(place)}`"
    if above_id == user_id and user_id:
        return (
            f"it belongs to user {owner_id}, its directory to this user:"
            f" `sudo chown --reference={shell_word(directory)} {shell_word(place)}`"
        )
    return "run it as the user that the broker runs as" + (", or as root" if user_id else "")


def _number_of(error: BaseException) -> int | None:
    """Return the number of the operating system's error, if there is a next step for it."""
    cause: BaseException | None = error
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:  # what is raised from itself is its own cause
        if isinstance(cause, OSError) and cause.errno in (*STEPS_AFTER_SYSTEM_ERRORS, *_OF_PERMISSIONS):
            return cause.errno
        seen.add(id(cause))
        cause = cause.__cause__
    return errno.ENOSPC if isinstance(error, NoSpace) else None  # of another process, which has the cause


def worst_exit_code(codes: Set[ExitCode]) -> ExitCode:
    """Return one exit code for the files of one target: a failure, then corruption, then the largest."""
    worst = (code for code in (ExitCode.FAILURE, ExitCode.CORRUPTION) if code in codes)
    return next(worst, max(codes, default=ExitCode.OK))


def combined_exit_code(codes: list[ExitCode], *, is_read: bool = False) -> ExitCode:
    """Return one exit code for several targets (see EXIT STATUS in the man pages).

    One target: its own code. Several: 130 if interrupted; the common code if all ended alike; else 4
    if corruption was found; else 5 if any failed; else 3; else 0. If `is_read`, no target ended with an error: then 12
    is that of a metadata record of a newer Kafka in a sound log, and the code of the whole.
    """
    if not codes:
        return ExitCode.OK
    if ExitCode.INTERRUPTED in codes:
        return ExitCode.INTERRUPTED
    if len(set(codes)) == 1:
        return codes[0]
    if ExitCode.CORRUPTION in codes:
        return ExitCode.CORRUPTION
    failed = {*codes} - {ExitCode.OK, ExitCode.WARNINGS}
    if failed:
        return ExitCode.UNSUPPORTED if is_read and failed == {ExitCode.UNSUPPORTED} else ExitCode.PARTIAL
    return ExitCode.WARNINGS


def of_the_system(path: str, error: OSError) -> KafkalogError:
    """Translate an OSError about `path`, or about the file that the error names, into NoSpace or Unreadable."""
    named = error.filename if isinstance(error.filename, str) else path
    if error.errno in NO_ROOM:
        told: KafkalogError = NoSpace(path=named, reason="it could not be written")
    else:
        told = Unreadable(path=named, reason=error.strerror or str(error))
    told.__cause__ = error
    return told

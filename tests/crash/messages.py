"""Whether what a command tells after a failed call is true: of the disk, and of the commands that it names."""

from __future__ import annotations

import errno
import re
import shlex
from functools import cache

from tests.crash.log_directories import MARKER, PARTITION, ROOT, records
from tests.crash.writer_matrix import WriterMatrix, copy, expected, made_records, own_tree
from tests.crash.writers import NEW, NOW_MS, ROLL, ROLL_AND_ERASE, SETTINGS, Kind, Outcome, Writer, kafkalog
from tests.support.memory_fs import MemoryFilesystem
from tests.support.watched_fs import CHANGES, READS, FailingFilesystem

NEVER = 10**9
READ_ONLY = (errno.EROFS, CHANGES - {"write", "sync", "sync_directory", "truncate"} | {"open_write", "lock"})
"""A file system that was mounted read-only: the calls that fail. The tests add it to `watched_fs.FAULTS` as EROFS."""
WRITE_FAULTS = ("EIO", "ENOSPC", "EROFS")
NAMED = re.compile(r"`kafkalog ((?:undo|recover) [^`]*)`")
SALVAGE = "--salvage"
"""A next step where the device fails: it copies what is there to another disk, and repairs nothing."""
GOES_ON = "repeat the command"

Tree = dict[str, tuple[object, ...]]


def candidates(writer: Writer, fixture: str, faults: tuple[str, ...] = WRITE_FAULTS) -> list[tuple[str, bool, int]]:
    """(fault, for ever, number) of all calls of a run that can fail so."""
    found = []
    for fault in faults:
        fs = FailingFilesystem(writer.disk(fixture), fault, NEVER)
        writer.act(fs)
        found += [(fault, for_ever, n) for for_ever in (False, True) for n in range(fs.candidates)]
    return found


class CheckedMessage:
    """A run with one fault. `check` raises AssertionError if something that was told is not true."""

    def __init__(self, writer: Writer, fixture: str, fault: str, for_ever: bool, n: int) -> None:
        self.writer, self.matrix, self.expected = writer, WriterMatrix(writer, fixture), expected(writer, fixture)
        self.disk = writer.disk(fixture)
        fs = FailingFilesystem(self.disk, fault, n, for_ever=for_ever)
        self.outcome = writer.act(fs)
        assert fs.fired
        self.is_of_a_read = fs.failed[0].name in READS
        self.text = self.outcome.out + self.outcome.err
        self.where = f"{fault} {'for ever ' * for_ever}at {fs.failed[0][:3]}: {self.outcome}"
        self.before, self.after = _files(self.expected.tree_before), _files(self.expected.tree_after)
        self.there = _files(own_tree(self.disk))

    @property
    def has_failed(self) -> bool:
        """`retain --free-bytes` finds no room in these tests, which is told with another exit code than 0."""
        harmless = ("nothing else may go", "no room for the lock")
        others = [line for line in self.outcome.err.splitlines() if not any(text in line for text in harmless)]
        return self.outcome.code not in self.writer.codes or (self.writer.kind is Kind.FREES and bool(others))

    def check(self) -> bool:
        """Whether something was changed."""
        changed, text = _differences(self.before, self.there), self.text
        assert "nothing was changed" not in text or not changed, f"{changed} changed: {self.where}"
        gone = self.before.keys() - self.there.keys()
        assert "nothing unlinked" not in text or not gone, f"{gone} unlinked: {self.where}"
        if MARKER in self.before and MARKER not in self.there:
            assert ".kafka_cleanshutdown" in text, f"nothing tells that it is away: {self.where}"
        if not self.has_failed:
            assert self.there == self.after or self.is_of_a_read, f"told of success: {self.where}"
            return bool(changed)
        commands = [] if self.writer.kind is Kind.COPIES else NAMED.findall(text)
        named = [command for command in commands if SALVAGE not in command]
        for command in commands:
            if SALVAGE in command:
                self._salvage(command)
            else:
                self._run_named(command)
        if GOES_ON in text and not named:
            self._run_again()
        # What could not be read is told, and stays.
        is_partial = self.is_of_a_read and (self.outcome.code == 3 or self.writer.kind is Kind.FREES)
        is_told = named or GOES_ON in text or self.writer.kind is Kind.COPIES or is_partial or self.is_made_only
        assert is_told or not changed, f"{changed} changed, and nothing tells what to do: {self.where}"
        return bool(changed)

    @property
    def is_made_only(self) -> bool:
        """A new partition without records is told of, and is left for the next append."""
        return "this partition was made, and stays" in self.text and not made_records(self.disk)

    def _run_named(self, command: str) -> None:
        disk = copy(self.disk)
        words = shlex.split(command)
        more = SETTINGS if words[0] == "recover" else ()
        outcome = kafkalog(disk, *words, *more, token="0002", now_ms=max(self.writer.now_ms, NOW_MS) + 1000)
        where = f"`{command}`: {outcome} after {self.where}"
        assert outcome.code == 0, where
        found = _files(own_tree(disk))
        if words[0] == "undo":
            wanted = self.after if self.writer.kind is Kind.UNDOES else _files(self.matrix.without_due(own_tree(disk)))
            if self.writer is ROLL_AND_ERASE and "-compact-" in command:
                wanted = _files(_rolled(self.matrix.fixture))
            if self.is_made_only:
                found, wanted = (_without_new(tree) for tree in (found, wanted))
            assert found == wanted, f"{_differences(wanted, found)} is not as it was: {where}"
            return
        left = records(disk)
        is_end = self.expected.records_before[len(self.expected.records_before) - len(left) :] == left
        is_kept = left in (self.expected.records_before, self.expected.records_after)
        assert is_kept or (self.writer.kind is Kind.FREES and is_end), f"other records: {where}"
        if "if no bytes have to go" not in self.text or not re.search(r" (bytes|.iB) cut", outcome.out):
            assert found.get(MARKER) == self.before.get(MARKER), f"the marker did not come back: {where}"
        if self.writer.kind is Kind.FREES:  # nothing remembers what was unlinked
            verified, undisturbed = _verified(disk), self.writer.disk(self.matrix.fixture)
            self.writer.act(undisturbed)
            assert verified.code in (0, _verified(undisturbed).code), f"{verified} after {where}"

    def _salvage(self, command: str) -> None:
        """The command that a failing device gives as the next step copies what is there, and changes nothing there."""
        disk = copy(self.disk)
        outcome = kafkalog(disk, *shlex.split(command), token="0002", now_ms=max(self.writer.now_ms, NOW_MS) + 1000)
        where = f"`{command}`: {outcome} after {self.where}"
        assert outcome.code in (0, 3, 4), where
        left = {path: facts for path, facts in _files(own_tree(disk)).items() if path.startswith(f"{ROOT}/")}
        there = {path: facts for path, facts in self.there.items() if path.startswith(f"{ROOT}/")}
        assert left == there, f"{_differences(left, there)}: {where}"

    def _run_again(self) -> None:
        disk = copy(self.disk)
        outcome = self.writer.act(disk, token="0002")
        where = f"{outcome} after {self.where}"
        assert outcome.code in self.writer.codes | self.writer.codes_again, where
        found, wanted = _files(own_tree(disk)), self.after
        if self.writer.kind is Kind.MAKES:
            assert made_records(disk) == [b"one", b"two"], where
            found, wanted = (_without_new(tree) for tree in (found, wanted))
        assert found == wanted, f"{_differences(wanted, found)}: {where}"


@cache
def _rolled(fixture: str) -> Tree:
    disk = ROLL_AND_ERASE.disk(fixture)
    assert ROLL.act(disk).code == 0
    return own_tree(disk)


def _files(tree: Tree) -> Tree:
    """Without times: an error right after a file was put back leaves them."""
    return {path: facts[:4] for path, facts in tree.items() if path not in (PARTITION, NEW)}


def _verified(disk: MemoryFilesystem) -> Outcome:
    return kafkalog(disk, "verify", PARTITION, now_ms=NOW_MS + 2000)


def _without_new(tree: Tree) -> Tree:
    return {path: facts for path, facts in tree.items() if not path.startswith(f"{ROOT}/new-")}


def _differences(one: Tree, other: Tree) -> list[str]:
    return sorted(path for path in one.keys() | other.keys() if one.get(path) != other.get(path))

"""Proves that keys were erased: reads every log before and after, and other files that may contain the keys."""

import hashlib
import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from kafkalog_cli.broker.cleaning.choosing import UpTo
from kafkalog_cli.broker.cleaning.key_table import SoughtKeys, key_of
from kafkalog_cli.change.manifest import read_manifest
from kafkalog_cli.change.runs import run_directory
from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.names import DirectoryKind, FileKind, classify_file
from kafkalog_cli.errors import BadInput, ExitCode, KafkalogError, UsageError, shell_word
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.format.values.value_format import ValueFormat
from kafkalog_cli.log.partition import Partition, open_partition, partitions_in
from kafkalog_cli.log.reading.scan import Scan
from kafkalog_cli.ops.change.append.lines import each_line, file_pieces
from kafkalog_cli.ops.change.append.reading import bad_line, parse_ndjson
from kafkalog_cli.ops.change.compact.plan import (
    MOST_OFFSETS,
    Choice,
    CompactPlan,
    ErasedKey,
    Holder,
    LogDigest,
    RecordPlace,
)
from kafkalog_cli.ops.change.plans import Remark
from kafkalog_cli.ops.decoding import Decoding
from kafkalog_cli.ops.keys import PrintedKeys, forms_of, stored_forms
from kafkalog_cli.ops.ownership import Replication
from kafkalog_cli.ops.steps import Argv, Step, Steps, Word
from kafkalog_cli.ops.values import UndecodedCounts

_LOGS = (FileKind.LOG, FileKind.SEVEN_LOG)


class KeyFile(NamedTuple):
    """Keys, and the line of each in their file.

    `printed`: the lines of keys that only decoded keys can be compared with, with the texts; see `with_stored_keys`.
    """

    sought: SoughtKeys
    lines: tuple[int, ...]
    printed: tuple[tuple[int, str], ...] = ()

    def shown(self) -> list[tuple[int, str]]:
        """Return the line and the key of each, quoted and without control characters."""
        found = {line: repr(text) for line, text in self.printed}
        for key, number in self.sought.items():
            found.setdefault(self.lines[number], _shown(key))
        return sorted(found.items())


def _shown(key: bytes) -> str:
    try:
        return repr(key.decode())
    except UnicodeDecodeError:
        return f"hex:{key.hex()}"


def keys_to_erase(
    fs: Filesystem, path: str, partitions: Sequence[Partition], decoding: Decoding, *, is_ndjson: bool
) -> KeyFile:
    """Read the keys to erase: from records as NDJSON, or one key per line, without empty lines.

    Raises BadInput, and the exceptions of reading.
    """
    keys: list[bytes] = []
    numbers: list[int] = []
    printed: list[tuple[int, str]] = []
    with fs.open_read(path) as file:
        for number, line in enumerate(each_line(file_pieces(file)), 1):
            try:
                found = _keys_of(line, None if is_ndjson else decoding.key_format, is_ndjson=is_ndjson) if line else ()
            except (ValueError, UsageError) as error:
                reason = error if isinstance(error, ValueError) else ValueError(str(error))
                raise bad_line(path, number, reason) from error
            if found is None:
                printed.append((number, os.fsdecode(line or b"")))
                continue
            keys += found
            numbers += [number] * len(found)
    if not keys and not printed:
        raise BadInput(path=path, reason="the file has no key: give one key per line")
    return _with_stored_keys(fs, KeyFile(SoughtKeys(keys), tuple(numbers), tuple(printed)), partitions, decoding)


def keys_to_explain(
    fs: Filesystem, text: str, partitions: Sequence[Partition], decoding: Decoding
) -> tuple[bytes, ...]:
    """Return the bytes of the key to explain, as `keys_to_erase` does."""
    stored = stored_forms(text, decoding.key_format)
    if stored is not None:
        return stored
    found = _with_stored_keys(fs, KeyFile(SoughtKeys(()), (), ((1, text),)), partitions, decoding)
    return tuple(key for key, _ in found.sought.items())


def _keys_of(line: bytes, key_format: ValueFormat | None, *, is_ndjson: bool) -> tuple[bytes, ...] | None:
    if not is_ndjson:
        return stored_forms(line.decode("utf-8", "surrogateescape"), key_format)
    record = parse_ndjson(line)
    if record is not None and record.key is None:
        raise ValueError("a record without a key: what has none is not erased")
    return () if record is None or record.key is None else (record.key,)


def _with_stored_keys(fs: Filesystem, keys: KeyFile, partitions: Sequence[Partition], decoding: Decoding) -> KeyFile:
    """Return the keys with the bytes that the logs of the partitions have for printed keys: all keys are decoded."""
    decoder, _ = decoding.decoder(fs, [partition.path for partition in partitions] if keys.printed else [])
    if not keys.printed:
        return keys
    lines = {form: line for line, text in keys.printed for form in forms_of(text)}
    found: dict[bytes, int] = {}
    for partition in partitions:
        printed = PrintedKeys(decoder, partition.topic, UndecodedCounts())
        for segment in partition.segments:
            with fs.open_read(segment.log.path) as file:
                for block in Scan(file).blocks():
                    for row, forms in printed(block):
                        line = next((lines[form] for form in forms if form in lines), None)
                        if line is not None:
                            found[key_of(block, row) or b""] = line
    stored = [key for key, _ in keys.sought.items()]
    numbers = [keys.lines[number] for _, number in keys.sought.items()]
    return keys._replace(sought=SoughtKeys([*stored, *found]), lines=(*numbers, *found.values()))


class ErasureProof:
    """Reads the logs of one partition: `look` before a cleaning or without one, `look_again` after it."""

    def __init__(self, fs: Filesystem, keys: KeyFile) -> None:
        self._fs = fs
        self._lines = keys.lines
        self._all_lines = {line for line, _ in keys.shown()}
        self.wanted = len(self._all_lines)
        self._missing = {number for _, number in keys.sought.items()}
        self._finder = keys.sought.finder()
        self._erased: dict[int, ErasedKey] = {}

    def look(self, plan: CompactPlan) -> CompactPlan:
        """Return the plan with the records to erase, and the files that will still contain the keys.

        Only the segments with these records are changed if nothing else is removed. The choice becomes NOTHING_TO_ERASE
        if only the erasure is a reason to clean, and no record has a key. Raises the exceptions of reading.
        """
        partition = open_partition(self._fs, plan.path)
        before, holders = self._read_all(partition, plan, notes_keys=True)
        holders = [holder for holder in holders if holder.place is not RecordPlace.CLEANED]
        keys = (key for _, key in sorted(self._erased.items()))
        found_lines = {line for number, line in enumerate(self._lines) if number not in self._missing}
        missing = tuple(sorted(self._all_lines - found_lines))
        assert plan.erasure is not None
        erasure = plan.erasure._replace(
            keys=tuple(keys), before=tuple(before), holders=tuple(holders), lines_without_record=missing
        )
        plan = replace(plan, erasure=erasure)
        if plan.choice in (Choice.ERASING, Choice.ERASING_ONLY) and not self._erased:
            return replace(plan, choice=Choice.NOTHING_TO_ERASE, groups=(), line_edits=())
        if plan.choice is not Choice.ERASING_ONLY:
            return plan
        bases = [segment.base_offset for segment in partition.segments]
        found = [base for base, log in zip(bases, before, strict=True) if log.records and _is_cleaned(plan, base)]
        return replace(plan, groups=tuple((base,) for base in found), rolls=found[-1] == bases[-1])

    def look_again(self, plan: CompactPlan) -> CompactPlan:
        """Return the plan with the logs and the holders of keys after the cleaning. Raises as reading does."""
        after, holders = self._read_all(open_partition(self._fs, plan.path), plan, notes_keys=False)
        assert plan.erasure is not None
        return replace(plan, erasure=plan.erasure._replace(after=tuple(after), holders=tuple(holders)))

    def _read_all(
        self, partition: Partition, plan: CompactPlan, *, notes_keys: bool
    ) -> tuple[list[LogDigest], list[Holder]]:
        """Read the partition's logs, and all other files that may have the keys; return who has them."""
        digests, holders = [], []
        for segment in partition.segments:
            path, place = segment.log.path, _place_of(plan, segment.base_offset, partition.segments[-1].base_offset)
            count, unread = self._count(path, notes_keys=notes_keys and place is RecordPlace.CLEANED)
            digests.append(LogDigest(path.rpartition("/")[2], segment.log.size_bytes, self._digest(path), count))
            holders += [Holder(path, place, count, unread)] if count or unread else []
        return digests, [*holders, *self._elsewhere(partition, plan)]

    def _digest(self, path: str) -> str:
        digest = hashlib.sha256()
        with self._fs.open_read(path) as file:
            for piece in file_pieces(file):
                digest.update(piece)
        return digest.hexdigest()

    # -- what else is on the disk

    def _elsewhere(self, partition: Partition, plan: CompactPlan) -> Iterator[Holder]:
        for file in partition.leftovers:
            if file.name.kind in _LOGS:
                yield from self._holder(file.status.path, RecordPlace.WAITING)
        for run_id in partition.runs:
            for path in self._kept_by(partition.path, run_id):
                yield from self._holder(path, RecordPlace.RUN)
        for path in self._other_directories(partition, plan.log_dir):
            for status in self._fs.list_directory(path):
                if classify_file(status.path.rpartition("/")[2]).kind in _LOGS:
                    yield from self._holder(status.path, RecordPlace.DIRECTORY)

    def _kept_by(self, path: str, run_id: str) -> Iterator[str]:
        """Yield the logs that a run keeps; all its files if its manifest cannot be read."""
        directory = run_directory(path, run_id)
        there = [status.path for status in self._fs.list_directory(directory)]
        try:
            manifest = read_manifest(self._fs, path, run_id)
        except KafkalogError:
            manifest = None
        if manifest is None:
            yield from there
            return
        for change in manifest.changes:
            kept = f"{directory}/{change.kept}"
            if change.kept is not None and kept in there and classify_file(change.name).kind in _LOGS:
                yield kept

    def _other_directories(self, partition: Partition, log_dir: str | None) -> Iterator[str]:
        """Yield other directories of the same partition in the log directory: -delete, -stray and -future."""
        if log_dir is None:
            return
        for found in partitions_in(self._fs, log_dir):
            directory = found.directory
            topic = directory.topic or ""
            is_same = topic == partition.topic or (directory.topic_may_be_cut and partition.topic.startswith(topic))
            if directory.kind is not DirectoryKind.PARTITION and is_same and directory.partition == partition.number:
                yield found.path

    def _holder(self, path: str, place: RecordPlace) -> Iterator[Holder]:
        count, unread = self._count(path)
        if count or unread:
            yield Holder(path, place, count, unread)

    # -- reading

    def _count(self, path: str, *, notes_keys: bool = False) -> tuple[int, str | None]:
        """Count a log's records that have one of the keys. Also returns why its end cannot be read, or None."""
        count = 0
        with self._fs.open_read(path) as file:
            reader = Scan(file)
            for block in reader.blocks():
                for fault in block.faults.values():
                    return count, fault.message
                rows = [row for row in self._finder.rows(block) if not _is_control(block, row)]
                count += len(rows)
                numbers = [self._finder.number_of(block, row) for row in rows if notes_keys or self._missing]
                self._missing.difference_update(numbers)
                for row, number in zip(rows, numbers if notes_keys else (), strict=False):
                    self._note(number, int(block.records.offset[row]))
            return count, None if reader.fault is None else reader.fault.message

    def _note(self, number: int, offset: int) -> None:
        key = self._erased.setdefault(number, ErasedKey(self._lines[number]))
        key.records += 1
        key.last_offset = offset
        if len(key.offsets) < MOST_OFFSETS:
            key.offsets.append(offset)


def with_holders(plan: CompactPlan) -> CompactPlan:
    """Return the plan with a warning for each file that still contains erased keys."""
    holders = () if plan.erasure is None else plan.erasure.holders
    return replace(plan, remarks=(*plan.remarks, *(_remark(plan, holder) for holder in holders)))


def _is_control(block: RecordBlock, row: int) -> bool:
    """Whether the row is a control record, such as a transaction marker."""
    return block.batches.row(block.first_row + bisect_right(block.record_ends, row)).is_control


def _place_of(plan: CompactPlan, base_offset: int, active: int) -> RecordPlace:
    if _is_cleaned(plan, base_offset):
        return RecordPlace.CLEANED
    return RecordPlace.ACTIVE if base_offset == active else RecordPlace.UNCLEANABLE


def _is_cleaned(plan: CompactPlan, base_offset: int) -> bool:
    return plan.choice.is_cleaned and plan.dirt is not None and base_offset < plan.dirt.first_uncleanable


def _remark(plan: CompactPlan, holder: Holder) -> Remark:
    if holder.unread is not None:
        message = f"may hold the keys, it cannot be read to its end: {holder.unread}"
    else:
        records = "a record" if holder.records == 1 else f"{holder.records} records"
        message = f"holds {records} of the keys"
    return Remark(holder.path, message, ExitCode.WARNINGS, steps=_steps(plan, holder.place))


def _steps(plan: CompactPlan, place: RecordPlace) -> Steps:
    if place not in (RecordPlace.ACTIVE, RecordPlace.UNCLEANABLE):
        return _NEXT[place]
    if plan.choice is Choice.NOT_COMPACTED:
        names = f"--topic {shell_word(plan.topic)} names the topic"
        return (Step(f"{names}: then these records are erased, and no others, as it is not compacted"),)
    is_unstable = plan.dirt is not None and plan.dirt.up_to is UpTo.LAST_STABLE_OFFSET
    return _AFTER_THE_BROKER if is_unstable else _NEXT[place]


_AFTER_THE_BROKER = (
    Step("a broker that runs raises the high watermark and ends open transactions"),
    Step("Once it has stopped, the same command"),
)
_PURGE: Argv = ("kafkalog", "purge", Word.PATH)
_NEXT: dict[RecordPlace, Steps] = {
    RecordPlace.CLEANED: (),
    RecordPlace.UNCLEANABLE: (Step("the same command again once it may be cleaned"),),
    RecordPlace.ACTIVE: (
        Step("", ("kafkalog", "roll", Word.PATH, "--force"), "closes the segment", "; "),
        Step("then the same command again"),
    ),
    RecordPlace.WAITING: (Step("", _PURGE, "removes it once it is due"),),
    RecordPlace.RUN: (
        Step("", (*_PURGE, "--older-than", "0s"), "removes it", "; "),
        Step("then the run cannot be undone"),
    ),
    RecordPlace.DIRECTORY: (Step("a broker removes the directory, or the administrator does"),),
}


def replication_words(replication: Replication | None, unknown_because: str) -> str:
    """Describe other replicas, which contain the keys until they are cleaned in the same way."""
    if replication is None:
        return f"whether other replicas hold the keys is not known: {unknown_because}"
    if len(replication.replicas) < 2:
        return "there is no other replica"
    return f"other replicas hold the keys still: {replication.words}"

"""Cases for compact: a log, its checkpoint, settings and a clock; what the real cleaner and ours make of it."""

import shutil
import struct
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.kafka.change_cases import RealLogs, Settled, bases, dated
from tests.kafka.loader_cases import (
    DAY_MS,
    MARKER,
    MARKER_BYTES,
    NOW_MS,
    Source,
    comparable,
    contents,
    offsets_in,
    write,
)
from tests.support.naive_reader import read_batches, read_records
from tests.support.product_kafka import OnePartition

FLAVOURS = "ptgwoearv"
MAP_BYTES = 24 * 100_000
"""The real cleaner's memory for keys, which holds all of them: ours has no limit that ends a round."""
BATCH_OF_NOTHING = "Empty batches are only supported for magic v2 and above"


class CleanCase(NamedTuple):
    """`checkpoint` None: there is no line. `mtimes` are those of the logs, in ms, by name."""

    seed: int
    log: Settled
    settings: dict
    checkpoint: int | None
    high_watermark: int
    now_ms: int
    expiration_ms: int
    io_buffer_bytes: int
    mtimes: dict
    force: bool

    def __str__(self):
        words = f"checkpoint={self.checkpoint} hw={self.high_watermark} now={self.now_ms}"
        more = f"expiration={self.expiration_ms} force={self.force} {self.settings}"
        return f"{self.seed} {self.log.name} [{self.log.log_start}, {self.log.log_end}) {words} {more}"


class Cleaned(NamedTuple):
    """What came out: last stable offset, first dirty and uncleanable, bytes, delay; the end offset, None if it was not
    cleaned; files; refusal. `lost_ends`: of ours, where Kafka fails."""

    numbers: tuple = ()
    end_offset: int | None = None
    files: dict | None = None
    refused: str | None = None
    lost_ends: int = 0


class RealCleaner(RealLogs):
    """A RealLogs that cleans too (java/CleanLogs)."""

    def clean(self, directory, case):
        log = case.log
        start = log.log_start if log.log_start > log.first_base else 0
        words = [f"{name}={value}" for name, value in case.settings.items()]
        checkpoint = "none" if case.checkpoint is None else case.checkpoint
        sizes = [MAP_BYTES, case.io_buffer_bytes, int(case.force)]
        self._send(
            *("clean", directory, log.log_end, start, 1, case.now_ms, case.expiration_ms, case.high_watermark),
            *(checkpoint, *sizes, *words),
        )
        return self._answer()


# -- logs and cases


def keyed_source(real, folder, seed, files=None):
    """A random log with few keys, which the real UnifiedLog writes; or what is appended to `files`."""
    chance = Random(seed)
    flavour = "k" + "".join(letter for letter in FLAVOURS if chance.random() < 0.45)
    settings = {
        "internal.segment.bytes": chance.choice([600, 1000, 2000, 6000]),
        "segment.index.bytes": 4096,
        "index.interval.bytes": chance.choice([0, 100, 300, 4096]),
    }
    directory = write(files or {}, folder / "source-0")
    offsets = real.generate(directory, seed, flavour, settings, is_stopped=True)
    found = contents(directory)
    shutil.rmtree(directory)
    if not files:
        found = named_inside(found, chance)
    return Source(f"random {seed} {flavour}", found, (*offsets, *offsets_in(found)))


def named_inside(files, chance):
    """The files with some segments that begin with a message set named after an offset inside it.

    LogSegment.append looks at the largest offset only: a follower that starts at its leader's log start has such
    segments. Their indexes are left to the loading broker to make.
    """
    found = dict(files)
    for base in sorted(bases(files))[1:]:
        data = files[f"{base:020d}.log"]
        first = next(iter(read_batches(data)), None)
        if first is None or first.magic >= 2 or not first.attributes & 7 or chance.random() < 0.3:
            continue
        begins = min(record.offset for record in read_records(data, first))
        if begins < first.last_offset:
            name = f"{chance.randint(begins + 1, first.last_offset):020d}"
            for suffix in (".log", ".txnindex"):
                if f"{base:020d}{suffix}" in found:
                    found[name + suffix] = found.pop(f"{base:020d}{suffix}")
            for suffix in (".index", ".timeindex"):
                found.pop(f"{base:020d}{suffix}", None)
    return found


def make_clean(seed, log, now_ms=NOW_MS, checkpoint=None):
    """A case of a log; one that was cleaned before has a checkpoint."""
    chance = Random(seed)
    near = sorted({max(log.log_start, base + shift) for base in bases(log.files) for shift in (-1, 0, 1, 3)})
    near = [offset for offset in near if offset <= log.log_end]
    settings = {
        "cleanup.policy": "compact",
        "internal.segment.bytes": chance.choice([600, 1000, 2000, 4000, 50_000]),
        "segment.index.bytes": 4096,
        "index.interval.bytes": chance.choice([0, 100, 300, 4096]),
        "delete.retention.ms": chance.choice([0, 0, 1000, DAY_MS]),
        "min.cleanable.dirty.ratio": chance.choice(["0.0", "0.0001", "0.0001", "0.5", "0.9"]),
        "min.compaction.lag.ms": chance.choice([0, 0, 0, 0, 300_000, DAY_MS]),
        "max.compaction.lag.ms": chance.choice([2**63 - 1, 2**63 - 1, DAY_MS, 100_000]),
    }
    if int(settings["min.compaction.lag.ms"]) > settings["max.compaction.lag.ms"]:
        settings["min.compaction.lag.ms"] = 0
    if checkpoint is None and chance.random() < 0.25:
        checkpoint = chance.choice([*near, log.log_end + 5, 0])
    return CleanCase(
        seed,
        log,
        settings,
        checkpoint,
        log.log_end if chance.random() < 0.75 else chance.choice(near),
        now_ms,
        chance.choice([DAY_MS, 2**31 - 1, 2**31 - 1, 1]),
        chance.choice([512, 4096, 1 << 20]),
        {name: now_ms - chance.choice([0, 300, 5_000, 600_000, 2 * DAY_MS]) for name in log.files},
        chance.random() < 0.3,
    )


# -- the real one, and ours


def real_clean(case, real, folder):
    directory = write(case.log.files, folder / "real" / "t-0")
    dated(directory, case.mtimes)
    answer = real.clean(directory, case)
    if answer[0] != "ok":
        return Cleaned(refused=" ".join(answer[1:]))
    end_offset = None if answer[7] == "none" else int(answer[7])
    return Cleaned(tuple(map(int, answer[1:7])), end_offset, contents(directory))


def our_clean(case, folder, version):
    root = folder / "log.dir"
    directory = write(case.log.files, root / "t-0")
    dated(directory, case.mtimes)
    (root / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    lines = {"replication": case.high_watermark, "recovery-point": case.log.log_end, "cleaner": case.checkpoint}
    if case.log.log_start > case.log.first_base:
        lines["log-start"] = case.log.log_start
    for name, offset in lines.items():
        if offset is not None:
            (root / f"{name}-offset-checkpoint").write_text(f"0\n1\nt 0 {offset}\n")
    (root / MARKER).write_bytes(MARKER_BYTES)
    broker = {"producer.id.expiration.ms": str(case.expiration_ms)}
    plan, _ = OnePartition(root, directory, case.settings, broker, case.now_ms).compact(
        force=case.force, version=version
    )
    if plan.is_refused:
        return Cleaned(refused=plan.remarks[0].message)
    assert (root / MARKER).read_bytes() == MARKER_BYTES
    dirt = plan.dirt
    numbers = (dirt.first_dirty, dirt.first_uncleanable, dirt.clean_bytes, dirt.cleanable_bytes, dirt.delay_ms)
    if plan.outcome is None:
        return Cleaned(numbers, None, contents(directory))
    return Cleaned(numbers, plan.outcome.end_offset, contents(directory), None, plan.outcome.counts.lost_ends)


# -- both


def compare_clean(case, real, folder):
    """(what differs, in words; what the real one made). Works in `folder`, which is empty then and afterwards."""
    theirs = real_clean(case, real, folder)
    try:
        try:
            ours = our_clean(case, folder, real.version)
        except ValueError as error:
            ours = Cleaned(refused=str(error))
        found = differences(ours, theirs, folder)
        if found and ours.files and not theirs.refused and loads_ended_aborts(case, theirs.numbers[1]):
            found = []
        if case.settings["min.compaction.lag.ms"] and has_disputed_times(case.log.files):
            found = []
    except Exception as error:  # (the case is shown, and the next one tried)
        found = [f"ours fails: {error!r}"]
    for path in Path(folder).iterdir():
        shutil.rmtree(path)
    return found, theirs


def loads_ended_aborts(case, first_dirty):
    """Whether the real one takes transactions for aborted that it should not: LocalLog.collectAbortedTransactions looks
    from the log's start on, not from the first dirty offset, so that in a segment in which that lies an entry counts
    whose marker is never met. What the producer commits later is not in the table then, and older records stay: also
    those whose tombstone goes later, by which a deleted key is back. So ours does not do the same."""
    floor = max((base for base in bases(case.log.files) if base <= first_dirty), default=0)
    data = case.log.files.get(f"{floor:020d}.txnindex", b"")
    return any(last < first_dirty for _, _, _, last, _ in struct.iter_unpack(">hqqqq", data))


def has_disputed_times(files):
    """Whether a segment with timestamps has no entry in its time index: the real one goes by the file's mtime then
    (KAFKA-10207), ours by the batches."""
    return any(
        not files.get(f"{base:020d}.timeindex")
        and any(batch.max_timestamp >= 0 for batch in read_batches(files[f"{base:020d}.log"]))
        for base in bases(files)[:-1]
    )


def differences(ours, theirs, folder):
    if theirs.refused and BATCH_OF_NOTHING in theirs.refused and ours.lost_ends:
        return []  # here Kafka gives the partition up, and ours goes on
    if ours.refused or theirs.refused:
        both = ours.refused and theirs.refused
        return [] if both else [f"ours {ours.refused or ours.numbers}, real {theirs.refused or theirs.numbers}"]
    found = [] if ours.numbers == theirs.numbers[1:] else [f"numbers {ours.numbers}, real {theirs.numbers[1:]}"]
    if ours.end_offset != theirs.end_offset:
        found.append(f"end offset {ours.end_offset}, real {theirs.end_offset}")
    odd = set()
    for name in sorted(ours.files.keys() | theirs.files.keys()):
        one, other = ours.files.get(name), theirs.files.get(name)
        if one is None or other is None:
            found.append(f"{name}: {None if one is None else len(one)}, real {None if other is None else len(other)}")
        elif comparable(name, one) != comparable(name, other):
            stem, _, kind = name.partition(".")
            if kind == "log" and decoded(folder / "log.dir" / "t-0" / name) == decoded(folder / "real" / "t-0" / name):
                odd.add(stem)  # packed by another library
            elif not (
                stem in odd
                or (
                    kind.endswith("index")
                    and f"{stem}.log" in theirs.files
                    and ours.files[f"{stem}.log"] != theirs.files[f"{stem}.log"]
                )
            ):
                found.append(f"{name}: {len(one)} bytes, real {len(other)}")
    return found


def decoded(path):
    """(header fields but sizes and checksum, records) of each batch of a log."""
    data = path.read_bytes()
    return [
        (batch._replace(position=0, size_bytes=0, crc=0), list(read_records(data, batch)))
        for batch in read_batches(data)
    ]

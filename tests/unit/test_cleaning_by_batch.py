"""A cleaning against a twin that follows Cleaner, CleanedTransactionMetadata and MemoryRecords.filterTo batch by batch.

The logs have transactions, markers, delete horizons, the last batches of producers, and limits that fall on a batch.
"""

import struct
from collections import Counter
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_cli.broker.cleaning.cleaner import Cleaner, CleaningRequest
from kafkalog_cli.broker.cleaning.log import CleanableLog
from kafkalog_cli.broker.cleaning.marking import MarkingRequest, mark
from kafkalog_cli.broker.cleaning.output import IndexLimits
from kafkalog_cli.disk.fs import FileAttributes
from kafkalog_cli.format.producer_snapshot import ProducerEntry
from kafkalog_cli.log.partition import open_partition
from tests.support.logs import BASE_TIME_MS, CONTROL, TRANSACTIONAL, R, aborted_txns, batch_v2, message, message_set
from tests.support.memory_fs import MemoryFilesystem
from tests.support.naive_reader import read_batches, read_records
from tests.unit.test_cleaning import DIRECTORY, NOW_MS, RETENTION_MS, Files

HORIZON = 0x40
NO_HORIZON = None
PRODUCERS = (0, 7, 8)


class Step(NamedTuple):
    """One batch of the log. `kind`: data, txn, commit, abort, v0, v1, set, end (the segment ends)."""

    kind: str
    producer: int
    horizon: int | None
    records: tuple[tuple[bytes | None, bytes | None, int], ...]
    """(key, value, offsets to the next record)."""
    epoch: int = 0


class Written(NamedTuple):
    """A batch of the log, and what the twin needs to know of it."""

    step: Step
    base: int
    last: int
    records: tuple[R, ...]
    segment: int
    data: bytes


kinds = st.sampled_from(["data", "data", "txn", "txn", "txn", "commit", "abort", "v0", "v1", "set", "end"])
fields = st.tuples(
    st.sampled_from([b"a", b"b", b"c", b"", None]), st.sampled_from([b"v", b"", None, None]), st.sampled_from([1, 1, 2])
)
plain = st.sampled_from(["data", "data", "data", "end"])
"""The cleaner decides about a chunk of such batches at once."""


def steps_of(kinds):
    return st.builds(
        Step,
        kinds,
        st.sampled_from([-1, *PRODUCERS]),
        st.sampled_from([NO_HORIZON, NO_HORIZON, NOW_MS - 1, NOW_MS, NOW_MS + 1]),
        st.lists(fields, max_size=3).map(tuple),
        st.integers(0, 1),
    )


def log_of(steps):  # noqa: C901  (the kinds of batches)
    """Return the batches, the base offsets of the segments, and the aborted transactions per base offset."""
    written, bases, aborts, opened, offset = [], [0], {0: []}, {}, 0
    for step in steps:
        producer = (max(step.producer, 0) if step.kind in ("txn", "commit", "abort") else step.producer, step.epoch, 0)
        records, base = [], offset
        if step.kind == "end":
            if written and written[-1].segment == bases[-1]:
                bases.append(offset)
                aborts[offset] = []
            continue
        if step.kind in ("commit", "abort"):
            key, value = struct.pack(">hh", 0, step.kind == "commit"), struct.pack(">hi", 0, 3)
            records = [R(offset, BASE_TIME_MS, key, value)]
            options = {"producer": (*producer[:2], -1), "bits": TRANSACTIONAL | CONTROL, "horizon": step.horizon}
            data, last = batch_v2(records, **options), offset
            first = opened.pop(producer[0], None)
            if first is not None and step.kind == "abort":
                stable = min([*opened.values(), offset + 1])
                aborts[bases[-1]].append((producer[0], first, offset, stable))
        else:
            for key, value, gap in step.records:
                records.append(R(offset, BASE_TIME_MS + offset % 5, key, value))
                offset += gap
            last = records[-1].offset if records else offset
            if step.kind in ("v0", "v1", "set"):
                if not records:
                    continue
                old = [r._replace(timestamp=-1) for r in records] if step.kind == "v0" else records
                whole = message_set(records, 1, 1) if step.kind == "set" else None
                for record in [None] if whole else old:
                    part = [record] if record else records
                    entry = whole or message(record, int(step.kind[1]))
                    written.append(Written(step, part[0].offset, part[-1].offset, tuple(part), bases[-1], entry))
                offset = last + 1
                continue
            if step.kind == "txn":
                opened.setdefault(producer[0], base)
            if step.producer < 0 and step.kind == "data":
                producer = (-1, -1, -1)
            bits = TRANSACTIONAL if step.kind == "txn" else 0
            data = batch_v2(records, 0, base, last, producer, bits=bits, horizon=step.horizon)
        written.append(Written(step._replace(producer=producer[0]), base, last, tuple(records), bases[-1], data))
        offset = last + 1
    return written, bases, aborts, offset


def known_keys(written, aborted, first_dirty, end):
    """Cleaner.buildOffsetMap: the newest offset per key in the dirty part, without aborted and control batches."""
    return {
        record.key: record.offset
        for one in written
        for record in one.records
        if one.step.kind not in ("commit", "abort")
        and first_dirty <= record.offset < end
        and record.key is not None
        and not (one.step.kind == "txn" and one.base in aborted)
    }


def aborted_batches(written):
    """The base offsets of the transactional batches whose transaction ended with an abort; and per marker what it ends."""
    aborted, ends, open_of = set(), {}, {}
    for one in written:
        producer = one.step.producer
        if one.step.kind == "txn":
            open_of.setdefault(producer, []).append(one.base)
        elif one.step.kind in ("commit", "abort"):
            ends[one.base] = open_of.pop(producer, [])
            aborted.update(ends[one.base] if one.step.kind == "abort" else ())
    return aborted, ends


class Kept(NamedTuple):
    base: int | None
    """None for what was v0 or v1: its base offset is that of the first record."""
    last: int
    is_empty: bool
    horizon: int | None
    records: tuple


def twin(case, now_ms):  # noqa: C901  (the rules, spelled out)
    """Return what stays, and what CleaningCounts says: records read and kept; batches copied, rewritten, emptied, gone; lost ends."""
    written, first_dirty, end, old_horizon_ms, mtimes, producers, retained_end = case
    aborted, ends = aborted_batches(written)
    keys = known_keys(written, aborted, first_dirty, end)
    kept, read, stays, lost, fates = [], 0, 0, 0, Counter()
    for one in written:
        if one.segment >= end:
            break
        step, is_old = one.step, one.step.kind in ("v0", "v1", "set")
        is_control = step.kind in ("commit", "abort")
        read += len(one.records)
        may_go = is_control and not ends[one.base]
        if is_control:
            is_over = may_go and step.horizon is not None and step.horizon <= now_ms
            left = () if is_over else one.records
        elif step.kind == "txn" and one.base in aborted:
            left = ()
        else:
            mtime = mtimes[one.segment]
            expires = mtime <= old_horizon_ms if is_old else step.horizon is not None and step.horizon <= now_ms
            left = tuple(
                r for r in one.records
                if r.key is not None and r.offset >= keys.get(r.key, -1) and not (r.value is None and expires)
            )  # fmt: skip
        stays += len(left)
        if not left:
            last = producers.get(step.producer) if step.producer >= 0 and not is_old else None
            if one.last + 1 == retained_end:
                lost += is_old
                is_retained = not is_old
            elif last is None:
                is_retained = False
            elif last.last_offset >= 0:
                is_retained = one.last == last.last_offset
            else:
                is_retained = is_control and step.epoch == last.producer_epoch
            fates["emptied" if is_retained else "gone"] += 1
            if is_retained:
                kept.append(Kept(one.base, one.last, True, None, ()))  # writeEmptyHeader keeps no horizon
            continue
        wants = may_go if is_control else any(r.value is None for r in left)
        horizon = step.horizon if not is_old else None
        is_changed = is_old or len(left) < len(one.records) or (wants and horizon is None)
        fates["rewritten" if is_changed else "copied"] += 1
        if wants and horizon is None:
            horizon = now_ms + RETENTION_MS
        found = tuple((r.offset, r.key, r.value) for r in left)
        kept.append(Kept(None if is_old else one.base, left[-1].offset if is_old else one.last, False, horizon, found))
    return kept, (read, stays, *(fates[fate] for fate in ("copied", "rewritten", "emptied", "gone")), lost)


def last_entry(last_offset, epoch):
    """What a producer's state has; the cleaner looks the id up by itself."""
    return ProducerEntry(0, epoch, 0, last_offset, 0, 0, -1, -1)


@st.composite
def cases(draw):
    steps = draw(st.lists(steps_of(draw(st.sampled_from([kinds, plain]))), min_size=2, max_size=14))
    written, bases, aborts, offset = log_of(steps)
    if not written:
        return draw(cases())
    # The active segment begins where the last step ended.
    end = draw(st.sampled_from([*bases[1:], offset]))
    first_dirty = draw(st.sampled_from(sorted({0, *(base for base in bases if base < end)})))
    ends = sorted({one.last for one in written})
    producers = draw(
        st.dictionaries(
            st.sampled_from(PRODUCERS),
            st.builds(last_entry, st.just(-1) | st.sampled_from(ends), st.integers(0, 1)),
            max_size=3,
        )
    )
    retained_end = draw(st.sampled_from([*(last + 1 for last in ends), offset]))
    old_horizon_ms = draw(st.sampled_from([0, 1000, 1001]))
    mtimes = {base: draw(st.sampled_from([1000, 1001])) for base in bases}
    return (written, first_dirty, end, old_horizon_ms, mtimes, producers, retained_end), bases, aborts, offset


def disk_of(written, bases, aborts, offset, mtimes):
    fs = MemoryFilesystem()
    for base in (*bases, *([offset] if offset != bases[-1] else [])):
        path = f"{DIRECTORY}/{base:020d}"
        attributes = FileAttributes(0o644, 1000, 1000, mtimes.get(base, 0) * 1_000_000)
        fs.add(f"{path}.log", b"".join(one.data for one in written if one.segment == base), attributes)
        for kind in ("index", "timeindex"):
            fs.add(f"{path}.{kind}", b"")
        if aborts.get(base):
            fs.add(f"{path}.txnindex", aborted_txns(aborts[base]))
    return fs


@given(case=cases(), group_bytes=st.sampled_from([1, 10_000]))
@settings(max_examples=80)
def test_a_log_is_cleaned_as_the_plain_copy_of_the_cleaner_does(case, group_bytes):
    (written, first_dirty, end, old_horizon_ms, mtimes, producers, retained_end), bases, aborts, offset = case
    fs = disk_of(written, bases, aborts, offset, mtimes)
    log = CleanableLog(fs, open_partition(fs, DIRECTORY).segments)
    marks = mark(log, MarkingRequest(first_dirty, end, NOW_MS, old_horizon_ms, 1 << 20))
    files = Files()
    request = CleaningRequest(NOW_MS, RETENTION_MS, end, group_bytes, IndexLimits(50, 4096), producers, retained_end)
    cleaner = Cleaner(log, marks, request, files)
    list(cleaner.groups())
    kept, wanted_counts = twin(case[0], NOW_MS)
    found = []
    for name, data in sorted(files.made.items()):
        for batch in read_batches(data) if ".log" in name else ():
            assert batch.valid
            horizon = batch.base_timestamp if batch.attributes & HORIZON else None
            records = tuple((r.offset, r.key, r.value) for r in read_records(data, batch))
            assert len(records) == batch.records_count
            found.append(Kept(batch.base_offset, batch.last_offset, not records, horizon, records))
    for one, batch in zip(kept, found, strict=True):
        assert batch == one._replace(base=one.records[0][0] if one.base is None else one.base)
    c = cleaner.counts
    batches = (c.batches_copied, c.batches_rewritten, c.batches_emptied, c.batches_gone)
    assert (c.records_read, c.records_kept, *batches, c.lost_ends) == wanted_counts
    assert marks.end_offset == max(end, first_dirty)

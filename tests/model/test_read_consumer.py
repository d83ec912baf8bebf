"""`read` against a consumer that looks at every batch of the log and lets the markers decide."""

import io
import json
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from tests.support.commands import stored
from tests.support.faulty_fs import FaultyFilesystem
from tests.support.logs import BASE_TIME_MS, TRANSACTIONAL, R, aborted_txns, batch_v2, end_marker, producer_snapshot
from tests.support.naive_consumer import ABORT, COMMIT, consume
from tests.support.product import Environment, run
from tests.support.strategies import logs as any_logs

FOLDER = "/logs/orders-3"


def read(files, *options, command="read"):
    """(exit code, objects of stdout, objects of stderr)."""
    out, err = io.BytesIO(), io.BytesIO()
    fs = files if isinstance(files, FaultyFilesystem) else FaultyFilesystem(files)
    environment = Environment(out, err, fs)
    code = run([command, FOLDER, "--format", "json", *options], environment)
    return code, *([json.loads(line) for line in stream.getvalue().splitlines()] for stream in (out, err))


def record_of(thing):
    headers = tuple((stored(header["key"]), stored(header["value"])) for header in thing["headers"])
    timestamp = -1 if thing["timestamp_ms"] is None else thing["timestamp_ms"]
    return thing["offset"], timestamp, stored(thing["key"]), stored(thing["value"]), headers


@dataclass
class Log:
    """A partition that is being made: its segments, their aborted transactions, snapshots at their bases."""

    base: int
    segments: dict = field(default_factory=dict)
    aborted: dict = field(default_factory=dict)
    snapshots: dict = field(default_factory=dict)
    open: dict = field(default_factory=dict)
    at: int = 0
    offset: int = 0

    def __post_init__(self):
        self.offset = self.base
        self.roll()

    def roll(self):
        if self.offset not in self.segments:
            self.at = self.offset
            self.segments[self.at], self.aborted[self.at] = b"", []
            entries = [(p, 0, -1, -1, 0, BASE_TIME_MS, 0, first) for p, first in sorted(self.open.items())]
            self.snapshots[self.at] = producer_snapshot(entries)

    def data(self, producer, count, codec, transactional):
        records = [R(self.offset + i, BASE_TIME_MS + self.offset, b"k%d" % i, b"v" * i) for i in range(count)]
        bits = TRANSACTIONAL if transactional else 0
        self.segments[self.at] += batch_v2(records, codec, producer=(producer, 0, 0), bits=bits)
        if transactional:
            self.open.setdefault(producer, self.offset)
        self.offset += count

    def end(self, producer, kind):
        self.segments[self.at] += end_marker(self.offset, BASE_TIME_MS + self.offset, (producer, 0), kind)
        first = self.open.pop(producer, None)
        if kind == ABORT and first is not None:
            stable = min(self.open.values(), default=self.offset + 1)
            self.aborted[self.at].append((producer, first, self.offset, stable))
        self.offset += 1

    def files(self, *, indexes=True, snapshots=True):
        files = {}
        for base, data in self.segments.items():
            stem = f"{FOLDER}/{base:020d}"
            files[stem + ".log"] = data
            if indexes and self.aborted[base]:
                files[stem + ".txnindex"] = aborted_txns(self.aborted[base])
            if snapshots and base > self.base:
                files[stem + ".snapshot"] = self.snapshots[base]
        return files


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["data", "data", "data", "plain", "commit", "abort", "roll", "gap"]),
        st.integers(0, 2),
        st.integers(1, 4),
        st.sampled_from([0, 0, 1, 3]),
    ),
    max_size=25,
)


def make(steps, base=0):
    log = Log(base)
    for kind, producer, count, codec in steps:
        if kind == "data":
            log.data(producer, count, codec, transactional=True)
        elif kind == "plain":
            log.data(7, count, codec, transactional=False)
        elif kind == "roll":
            log.roll()
        elif kind == "gap":
            log.offset += count
        else:
            log.end(producer, ABORT if kind == "abort" else COMMIT)
    return log


@given(
    steps=STEPS,
    base=st.sampled_from([0, 5, 1 << 33]),
    committed=st.booleans(),
    start=st.floats(0, 1),
    size=st.none() | st.integers(0, 30),
    most=st.none() | st.integers(1, 9),
    until=st.none() | st.integers(0, 60),
    indexes=st.booleans(),
    snapshots=st.booleans(),
)
def test_read_committed_of_random_transactions_gives_the_records_of_the_naive_consumer(
    steps, base, committed, start, size, most, until, indexes, snapshots
):
    log = make(steps, base)
    first = base + int(start * (_end(log) - base))
    end = None if size is None else first + size
    until = None if until is None else BASE_TIME_MS + base + until
    options = ["--from", str(first)]
    for name, value in (("--to-offset", end), ("--max-records", most), ("--until", until)):
        options += [] if value is None else [name, str(value)]
    options += ["--isolation", "read_committed"] if committed else []
    whole = consume(log.segments.values(), committed=committed)
    wanted = consume(log.segments.values(), first, 1 << 63 if end is None else end, until, most, committed)
    code, out, err = read(log.files(indexes=indexes, snapshots=snapshots), *options)
    *records, summary = out
    assert (code, [record_of(one) for one in records]) == (0, wanted.records)
    assert (summary["type"], summary["records"], summary["exit_code"]) == ("summary", len(wanted.records), 0)
    if most is not None and len(records) == most:
        assert summary["next_offset"] == records[-1]["offset"] + 1
    said = {one["kind"] for one in err}
    assert said <= {"transaction-index", "open-transaction"}
    if most is None and until is None and end is None and first < _end(log):
        assert summary["last_stable_offset"] == whole.last_stable_offset
        assert ("open-transaction" in said) == (whole.last_stable_offset is not None)
        # Where markers do without an index it is told, whenever they hide anything.
        assert ("transaction-index" in said) == bool(wanted.hidden_by and not indexes)


def _end(log):
    """The offset after the last batch, which a gap at the end is not."""
    ends = [record[0] + 1 for record in consume(log.segments.values()).records]
    markers = [entry[2] + 1 for entries in log.aborted.values() for entry in entries]
    return max([log.at, *ends, *markers])


@given(log=any_logs())
def test_read_of_every_format_gives_the_records_of_the_naive_consumer(log):
    """The same objects as those of dump-log, but for control records."""
    files = {f"{FOLDER}/{log.base_offset:020d}.log": log.data}
    code, out, err = read(files)
    _, dumped, _ = read(files, command="dump-log")
    records = [one for one in dumped if one["type"] == "record" and one["control"] is None]
    assert (code, out[:-1]) == (0, records)
    assert [record_of(one) for one in records] == consume([log.data]).records

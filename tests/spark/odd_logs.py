"""Logs of the odd kinds that brokers leave, and their rows by the naive reader: what Spark is to answer over them."""

from random import Random

from tests.support.logs import (
    BASE_TIME_MS,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    R,
    batch_v2,
    end_marker,
    message,
    message_set,
)
from tests.support.naive_consumer import CONTROL, consume
from tests.support.naive_reader import read_batches, read_records

DDL = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp_ms bigint, timestampType int,"
    " headers array<struct<key: string, value: binary>>"
)
KEYS = (None, b"", b"k1", b"k2", b"k3", b"\xff\xfe", "ключ".encode())
VALUES = (None, b"", b'{"a": 1, "b": [1, 2, 3]}', b'{"a": 2, "b": []}', b"not json", b"x" * 300, b"\x00\x80")
HEADERS = ((), (), ((b"h", b"1"),), ((b"h", b"1"), (b"h", None)), ((b"\xc3", b""), (b"g", b"2")))
PRODUCERS = (5, 6, 7)


class OddLog:
    """Writes one partition."""

    def __init__(self, folder, name, random, base=0):
        self.folder = folder / name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.random, self.offset, self.data, self.base = random, base, b"", base

    def roll(self, base=None):
        """End the segment; `base` names the next one."""
        (self.folder / f"{self.base:020d}.log").write_bytes(self.data)
        self.base, self.data = self.offset if base is None else base, b""

    def records(self, count, step=1, headers=True):
        made = []
        for _ in range(count):
            at_ms = BASE_TIME_MS + self.offset * 10 + self.random.choice([0, 0, -35, 3])
            more = self.random.choice(HEADERS) if headers else ()
            made.append(R(self.offset, at_ms, self.random.choice(KEYS), self.random.choice(VALUES), more))
            self.offset += self.random.randint(1, step)
        return made

    def v2(self, count=3, step=1, **more):
        self.data += batch_v2(self.records(count, step), self.random.randint(0, 4), **more)

    def append_time(self):
        self.data += batch_v2(self.records(3), bits=LOG_APPEND_TIME, max_timestamp=BASE_TIME_MS + 123_456)

    def old(self, magic, codec, count=4, name=None, append_time=None):
        """A message set; `name`: the segment begins with it, and is named after its record of this number."""
        records = self.records(count, self.random.choice([1, 3]), headers=False)
        records = records if magic else [one._replace(timestamp=-1) for one in records]
        if name is not None:
            self.base = records[name].offset
        if codec:
            self.data += message_set(records, magic, codec, append_time)
        else:
            self.data += b"".join(message(one, magic) for one in records)

    def transaction(self, producer, count=3):
        self.data += batch_v2(
            self.records(count), self.random.randint(0, 4), producer=(producer, 0, 0), bits=TRANSACTIONAL
        )

    def ended(self, producer, commits):
        self.data += end_marker(self.offset, BASE_TIME_MS + self.offset * 10, (producer, 0), commits)
        self.offset += 1

    def emptied(self, count=4):
        """A batch of which compaction took all records and left the header, for its producer's last sequence."""
        base, self.offset = self.offset, self.offset + count
        self.data += batch_v2([], base=base, last=base + count - 1, producer=(5, 0, 0))


def make_odd_logs(folder, seed):
    """Topics old (wrappers that begin below their segment's name), txn, thin (compacted), mixed, none (no record)."""
    random = Random(seed)
    for number in range(3):
        _old(OddLog(folder, f"old-{number}", random, base=random.choice([0, 40])))
        _transactions(OddLog(folder, f"txn-{number}", random))
        _thin(OddLog(folder, f"thin-{number}", random))
        _mixed(OddLog(folder, f"mixed-{number}", random, base=random.choice([0, 7])))
    OddLog(folder, "none-0", random).roll()
    OddLog(folder, "none-1", random, base=50).roll()
    only_markers = OddLog(folder, "none-2", random)
    only_markers.ended(5, commits=1)
    only_markers.emptied()
    only_markers.roll()
    return folder


def _old(log):
    for _ in range(3):
        log.old(log.random.choice([0, 1]), log.random.choice([1, 2, 3]), name=log.random.randint(0, 3))
        for _ in range(log.random.randint(1, 4)):
            append_time = log.random.choice([None, BASE_TIME_MS + 777])
            log.old(1, log.random.choice([1, 2, 3]), append_time=append_time)
            log.old(log.random.choice([0, 1]), 0, count=2)
        log.offset += log.random.choice([0, 5])
        log.roll()


def _transactions(log):
    for _ in range(3):
        for _ in range(log.random.randint(2, 4)):
            producer = log.random.choice(PRODUCERS)
            log.transaction(producer)
            if log.random.random() < 0.5:
                log.v2()
            if log.random.random() < 0.3:
                log.roll()
            log.ended(producer, commits=log.random.randint(0, 1))
        log.roll()
    if log.folder.name != "txn-0":  # open, with other producers' records and ends behind it
        log.transaction(9)
        log.v2()
        log.transaction(6)
        log.ended(6, commits=1)
    log.roll()


def _thin(log):
    for _ in range(3):
        for _ in range(log.random.randint(2, 5)):
            log.v2(step=7)
            if log.random.random() < 0.4:
                log.emptied()
            log.offset += log.random.choice([0, 0, 20])
        log.roll()


def _mixed(log):
    for _ in range(2):
        for _ in range(5):
            log.random.choice([log.v2, log.append_time, lambda: log.old(1, 1), lambda: log.old(0, 0)])()
        log.roll()


def naive_rows(folder, *, committed=False):
    """All records as tuples of DDL, in the order of topic, partition and offset."""
    found = []
    for directory in folder.iterdir():
        topic, _, number = directory.name.rpartition("-")
        files = sorted(directory.glob("*.log"))
        segments = [file.read_bytes() for file in files]
        kept = {one[0] for one in consume(segments, first=int(files[0].stem), committed=committed).records}
        for data in segments:
            for batch in read_batches(data):
                if batch.magic < 2 or not batch.attributes & CONTROL:
                    kind = -1 if not batch.magic else batch.attributes >> 3 & 1
                    found += [
                        _row(topic, int(number), one, kind) for one in read_records(data, batch) if one.offset in kept
                    ]
    return sorted(found, key=lambda row: row[2:5])


def _row(topic, number, one, kind):
    headers = [(key.decode("utf-8", "replace"), value) for key, value in one.headers] or None
    return one.key, one.value, topic, number, one.offset, one.timestamp, kind, headers

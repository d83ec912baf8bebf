"""Logs and random queries over them; each query in the SQL of Spark, DuckDB, and SQLite, which has the naive reader's rows."""

import re
import sqlite3
from random import Random

from tests.support.logs import (
    BASE_TIME_MS,
    CONTROL,
    TRANSACTIONAL,
    R,
    aborted_txns,
    batch_v2,
    end_marker,
    message_set,
    write_segment,
)
from tests.support.naive_reader import read_batches, read_records

TOPICS = {"a": (0, 1, 2), "b": (0, 3), "orders": (0, 1, 11)}
KEYS = (None, b"", b"k", b"key-1", b"key-2", b"key-3", b"x" * 9)
COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value")
PLACE = ("topic", "partition", "offset")
STEP_MS = 10


def make_logs(folder, seed):
    """Partitions of two or three segments with batches of all formats and codecs, gaps, times that go back or are none.

    Some segments are named after an offset inside their first wrapper. Each transaction ends after its batch.
    """
    random = Random(seed)
    for topic, numbers in TOPICS.items():
        for number in numbers:
            (folder / f"{topic}-{number}").mkdir(parents=True)
            offset = random.choice([0, 0, 7])
            for _ in range(random.randint(2, 3)):
                offset = _segment(folder / f"{topic}-{number}", offset, random)
    return folder


def _segment(folder, base, random):
    batches, offset, inside, aborted = [], base, [base], []
    for _ in range(random.randint(3, 6)):
        records = [_record(at, random) for at in range(offset, offset + random.randint(1, 4))]
        largest = max(record.timestamp for record in records)
        kind = random.choice(["v2", "v2", "v2", "v1", "v0", "transaction"])
        if kind == "v2":
            data = batch_v2(records, codec=random.randint(0, 4))
        elif kind == "transaction":
            producer, first = (random.randint(1, 3), 0), records[0].offset
            data = batch_v2(records, codec=random.randint(0, 4), producer=(*producer, 0), bits=TRANSACTIONAL)
        else:
            magic = int(kind[1])
            records = records if magic else [record._replace(timestamp=-1) for record in records]
            largest = largest if magic else -1
            data = message_set(records, magic, random.randint(1, 3))
            if not batches:
                inside = range(base, records[-1].offset + 1)
        batches.append((data, records[-1].offset, largest))
        offset = records[-1].offset + random.choice([1, 1, 1, 4])
        if kind == "transaction":
            commits = random.randint(0, 1)
            batches.append((end_marker(offset, BASE_TIME_MS, producer, commits), offset, BASE_TIME_MS))
            aborted += [] if commits else [(producer[0], first, offset, offset + 1)]
            offset += 1
    name = random.choice(inside)
    write_segment(folder, name, batches, interval=200)
    if aborted:
        (folder / f"{name:020d}.txnindex").write_bytes(aborted_txns(aborted))
    return offset


def _record(offset, random):
    at_ms = BASE_TIME_MS + offset * STEP_MS + random.choice([0, 0, 0, 3, -45, 120])
    at_ms = -1 if random.random() < 0.05 else at_ms
    headers = random.choice([(), (), ((b"h", None),), ((b"h", b"1"), (b"g", b""))])
    return R(offset, at_ms, random.choice(KEYS), random.choice([None, b"", b"v%d" % offset, b"w" * 40]), headers)


UNITS = {"minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
"""Milliseconds of the units of date_trunc."""


def oracle_of(folder, *, is_committed=False):
    """A database with a table for each topic: the rows that the naive reader decodes, and a broker serves.

    It serves a partition from the name of its first segment on, which may be an offset inside a wrapper.
    `is_committed`: without those of aborted transactions.
    """
    database = sqlite3.connect(":memory:")
    database.create_function("date_trunc", 2, lambda unit, ms: None if ms is None else ms // UNITS[unit] * UNITS[unit])
    for topic in TOPICS:
        database.execute(
            f"create table {topic} (topic text, partition int, offset int, timestamp int, key blob, value blob)"
        )
    starts = {}
    for path in sorted(folder.glob("*/*.log")):
        start = starts.setdefault(path.parent, int(path.stem))
        topic, _, number = path.parent.name.rpartition("-")
        if topic in TOPICS:
            data = path.read_bytes()
            rows = [
                (topic, int(number), one.offset, one.timestamp, one.key, one.value)
                for batch, records in _visible(data, is_committed)
                for one in records
                if one.offset >= start
            ]
            database.executemany(f"insert into {topic} values (?, ?, ?, ?, ?, ?)", rows)
    return database


def _visible(data, is_committed):
    """The batches of records, each with its records."""
    found = [(batch, list(read_records(data, batch))) for batch in read_batches(data)]
    for at, (batch, records) in enumerate(found):
        bits = batch.attributes if batch.magic == 2 else 0
        is_aborted = bits & TRANSACTIONAL and not bits & CONTROL and found[at + 1][1][0].key == b"\0\0\0\0"
        if not bits & CONTROL and not (is_aborted and is_committed):
            yield batch, records


class Node:
    """A relation with COLUMNS: `text` in SQL, where {0}, {1} … are names of the children."""

    def __init__(self, text, *children):
        self.text, self.children = text, children

    def sql(self, dialect):
        """As one text, the children as subqueries in it."""
        return in_dialect(self.text.format(*(f"({one.sql(dialect)})" for one in self.children)), dialect)


def in_dialect(text, dialect):
    """Times are milliseconds in SQLite. `<semi>` and `<anti>` stand for joins that it does not have."""
    if dialect == "sqlite":
        return text.replace("timestamp_millis(", "(").replace("unix_millis(", "(")
    if dialect == "duckdb":
        text = re.sub(r"\blength\(", "octet_length(", text.replace("`", '"'))
        return re.sub(r"X'(\w*)'", r"unhex('\1')", text)
    return text


def same_place(one, other):
    return " and ".join(f"{one}.`{name}` = {other}.`{name}`" for name in PLACE)


class Chooser:
    """Draws queries; all that is random in one comes from its seed."""

    def __init__(self, seed):
        self._random = Random(seed)

    def query(self):
        """A Node whose rows are the answer: plain rows, groups, or some numbers."""
        kind = self._random.choice(["rows", "rows", "groups", "numbers", "numbers", "cte"])
        if kind == "rows":
            return Node(
                "select topic, partition, `offset`, unix_millis(timestamp), key, value from {0} q",
                self.relation(self._random.choice([1, 2, 2, 3])),
            )
        if kind == "groups":
            by = self._random.choice(["topic, partition", "key", "partition"])
            return Node(
                f"select {by}, count(*), sum(`offset`), max(unix_millis(timestamp)), count(value) from {{0}} q group by {by}",
                self.relation(self._random.choice([1, 2, 2, 3])),
            )
        if kind == "cte":
            return self._common()
        parts = [self.relation(self._random.choice([1, 2])) for _ in range(self._random.randint(1, 3))]
        if self._random.random() < 0.3:
            parts.append(parts[0])
        words = [
            f"(select {self._random.choice(['count(*)', 'max(`offset`)', 'min(unix_millis(timestamp))', 'sum(partition)'])}"
            f" from {{{at}}} q{at})"
            for at in range(len(parts))
        ]
        return Node("select " + ", ".join(f"{word} as n{at}" for at, word in enumerate(words)), *parts)

    def _common(self):
        one, other = self.condition("c"), self.condition("c")
        end = self._random.choice([
            f"select count(*) n from c where {one} union all select count(*) from c where {other}",
            "select partition, count(*) from c group by partition union all select -1, count(*) from c",
            f"select count(*) from c x join c y on {same_place('x', 'y')} where {self.condition('x')}",
            f"select count(*), (select count(*) from c where {one}) from c where {other}",
        ])  # fmt: skip
        return Node(f"with c as (select * from {{0}} q) {end}", self.relation(2))

    def totals(self):
        """Groups of one topic, of which most can be aggregated in the tasks that read the records."""
        random = self._random
        times = ["timestamp", *(f"date_trunc('{unit}', timestamp)" for unit in UNITS)]
        keys = random.choice(
            ["", "", "partition", "key", "topic", *times, "length(key)", "partition, key", "key, `offset`"]
        )
        calls = random.sample(
            ["count(*)", "count(value)", "count(key)", "sum(partition)", "sum(length(value))", "max(length(key))",
             "min(`offset`)", "max(`offset`) - min(`offset`)", "max(unix_millis(timestamp))", "min(timestamp) is null",
             "count(distinct key)", "count(distinct length(value))", "sum(`offset`)", "count(*) + count(value)",
             "avg(length(value))", "avg(partition) - min(partition)"],
            random.randint(1, 4),
        )  # fmt: skip
        shown = ", ".join([*([f"unix_millis({keys})"] if keys in times else [keys] if keys else []), *calls])
        where = f" where {self.condition('q')}" if random.random() < 0.6 else ""
        group = f" group by {keys}" if keys else ""
        having = " having count(*) > 1" if keys and random.random() < 0.2 else ""
        whole = Node(f"select {shown} from {random.choice(list(TOPICS))} q{where}{group}{having}")
        return Node("select count(*) from {0} t", whole) if random.random() < 0.1 else whole

    def relation(self, depth):
        """A relation of at most so many levels."""
        if depth == 0 or self._random.random() < 0.15:
            return self._base()
        draw = self._random.choice([
            self._filtered, self._filtered, self._filtered, self._union, self._union, self._semi, self._semi, self._join,
            self._self_join, self._in, self._scalar, self._top, self._set, self._left, self._ranked, self._twice, self._again,
        ])  # fmt: skip
        return draw(depth - 1)

    def _base(self):
        return Node(f"select {', '.join(f'`{one}`' for one in COLUMNS)} from {self._random.choice(list(TOPICS))}")

    def _filtered(self, depth):
        return Node(f"select * from {{0}} f where {self.condition('f')}", self.relation(depth))

    def _union(self, depth):
        return Node("select * from {0} u union all select * from {1} w", self.relation(depth), self.relation(depth))

    def _twice(self, depth):
        """One relation under two conditions: as DataFrames it is one DataFrame."""
        one = self.relation(depth)
        text = f"select * from {{0}} t where {self.condition('t')} union all select * from {{1}} t where {self.condition('t')}"
        return Node(text, one, one)

    def _again(self, depth):
        """All of a relation beside some of it."""
        one = self.relation(depth)
        return Node(f"select * from {{0}} t where {self.condition('t')} union all select * from {{1}} t", one, one)

    def _semi(self, depth):
        negated = self._random.choice(["", "not "])
        more = f" and {self.condition('e')}" if self._random.random() < 0.5 else ""
        text = f"select * from {{0}} s where {negated}exists (select 1 from {{1}} e where {same_place('s', 'e')}{more})"
        return Node(text, self.relation(depth), self.relation(depth))

    def _join(self, depth):
        by = self._random.choice(
            [same_place("j", "k"), "j.key = k.key and j.partition = k.partition and k.`offset` < 12"]
        )
        more = f" and {self.condition('k')}" if self._random.random() < 0.5 else ""
        return Node(f"select j.* from {{0}} j join {{1}} k on {by}{more}", self.relation(depth), self.relation(depth))

    def _self_join(self, depth):
        one = self.relation(depth)
        conditions = f"{self.condition('j')} and {self.condition('k')}"
        return Node(f"select j.* from {{0}} j join {{1}} k on {same_place('j', 'k')} where {conditions}", one, one)

    def _left(self, depth):
        columns = "l.topic, l.partition, coalesce(r.`offset`, -1) as `offset`, l.timestamp, l.key, r.value"
        text = f"select {columns} from {{0}} l left join {{1}} r on {same_place('l', 'r')} and {self.condition('r')}"
        return Node(text, self.relation(depth), self.relation(depth))

    def _in(self, depth):
        column, negated = self._random.choice([("`offset`", "not "), ("`offset`", ""), ("key", ""), ("partition", "")])
        text = f"select * from {{0}} i where {column} {negated}in (select {column} from {{1}} o where {self.condition('o')})"
        return Node(text, self.relation(depth), self.relation(depth))

    def _scalar(self, depth):
        column = self._random.choice(["`offset`", "timestamp"])
        number = f"select {self._random.choice(['min', 'max'])}({column}) from {{1}} n where {self.condition('n')}"
        comparison = self._random.choice(["<", ">=", "=", ">"])
        return Node(
            f"select * from {{0}} m where {column} {comparison} ({number})", self.relation(depth), self.relation(depth)
        )

    def _top(self, depth):
        order = "topic, partition, `offset`, timestamp, key, value"
        return Node(
            f"select * from (select * from {{0}} p order by {order} limit {self._random.randint(1, 30)}) p",
            self.relation(depth),
        )

    def _set(self, depth):
        word = self._random.choice(["union", "intersect", "except"])
        return Node(f"select * from {{0}} y {word} select * from {{1}} z", self.relation(depth), self.relation(depth))

    def _ranked(self, depth):
        ranked = "rank() over (partition by topic, partition order by `offset`)"
        inner = f"select w.*, {ranked} as place from {{0}} w"
        return Node(
            f"select topic, partition, `offset`, timestamp, key, value from ({inner}) v where place <= 5",
            self.relation(depth),
        )

    def condition(self, alias):
        """A condition on the columns, true, false or null."""
        parts = [self._comparison(alias) for _ in range(self._random.choice([1, 1, 2, 2, 3]))]
        text = parts[0]
        for one in parts[1:]:
            text = f"({text} {self._random.choice(['and', 'and', 'or'])} {one})"
        return f"not ({text})" if self._random.random() < 0.08 else text

    def _comparison(self, alias):
        random, column = (
            self._random,
            self._random.choice(["partition", "partition", "`offset`", "`offset`", "timestamp", "key", "topic"]),
        )
        name, sign = f"{alias}.{column}", random.choice(["=", "<", "<=", ">", ">=", "="])
        if column in ("partition", "`offset`"):
            values = (0, 1, 2, 3, 11) if column == "partition" else range(-1, 45)
            if random.random() < 0.2:
                return f"{name} in ({', '.join(str(random.choice(values)) for _ in range(random.choice([1, 3, 13])))})"
            if random.random() < 0.15:
                return f"{name} between {random.choice(values)} and {random.choice(values)}"
            return (
                f"{name} {sign} {random.choice(values)}"
                if random.random() < 0.8
                else f"{random.choice(values)} {sign} {name}"
            )
        if column == "timestamp":
            at_ms = random.choice([-1, 0, BASE_TIME_MS + random.randint(-5, 50) * STEP_MS + random.choice([0, 0, 3])])
            return f"{name} {sign} timestamp_millis({at_ms})"
        if column == "key":
            return random.choice(
                [f"{name} is null", f"{name} is not null", f"{name} = X'{random.choice(KEYS[1:]).hex()}'"]
            )
        return f"{name} = '{random.choice(list(TOPICS))}'"

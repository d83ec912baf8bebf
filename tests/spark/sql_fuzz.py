"""Random SQL through Spark or DuckDB against SQLite over a naive decoder's rows: `python -m tests.spark.sql_fuzz --count 2000`.

With --engine duckdb, each query is one of `kafkalog sql --engine duckdb`. Otherwise each query is asked in one of four ways: of `kafkalog sql`'s views; of `kafkalog_cli.spark.sql`, whose DataFrame is used twice; as one text of temporary views, each a `load()` that
all queries share, some of them cached for a while; as DataFrames, one for each part of the query, of one shared `load()` a
topic, some of them counted or persisted before they are used. With --connect the last two go through Spark Connect.
"""

import argparse
import contextlib
import os
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from importlib import metadata
from pathlib import Path
from random import Random

import kafkalog_cli as kl
from tests.kafka.fuzzing import record
from tests.spark.sql_cases import TOPICS, Chooser, in_dialect, make_logs, oracle_of

DIRECTORIES = 3
ISOLATIONS = ("read_uncommitted", "read_committed")
WAYS = ("views", "sql", "views", "frames", "function")


class Asked:
    """The ways to ask a query of Spark, in one session, over one log directory."""

    def __init__(self, spark, folder, isolation):
        self._spark, self._folder, self._isolation = spark, folder, isolation
        read = spark.read.format("kafkalog").option("isolation", isolation)
        self._frames = {topic: read.option("subscribe", topic).load(str(folder)) for topic in TOPICS}
        self._cached = set()

    def as_sql(self, node, random):
        """As `kafkalog sql` does."""
        del random
        from tests.support.product import RealFilesystem
        from tests.support.product_spark import Catalog, Isolation, Reading, query

        self._drop_views()
        catalog = Catalog(RealFilesystem(), [str(self._folder)], node.sql("spark"), Reading(Isolation(self._isolation)))
        with query(self._spark, catalog) as result:
            return [tuple(row) for row in result._dataframe.collect()]

    def as_function(self, node, random):
        """As a DataFrame of the session, whose rows are the same beside a use that needs fewer of them."""
        from pyspark.sql.functions import lit

        from tests.support.product_spark import sql

        self._drop_views()
        frame = sql(self._spark, self._folder, node.sql("spark"), isolation=self._isolation)
        if random.random() < 0.3:
            frame.limit(1).count()
        both = frame.withColumn("use", lit(1)).union(frame.withColumn("use", lit(2)))
        rows = both.persist().collect() if random.random() < 0.3 else both.collect()
        both.unpersist()
        first, second = (Counter(tuple(row)[:-1] for row in rows if row.use == use) for use in (1, 2))
        assert plain(first.elements()) == plain(second.elements()), "two uses of one DataFrame differ"
        return list(first.elements())

    def as_views(self, node, random):
        """As one text over views that stay; one of them is cached, or is not cached any more, before some queries."""
        for topic, frame in self._frames.items():
            frame.createOrReplaceTempView(topic)
        topic = random.choice(list(TOPICS))
        if topic in self._cached:
            self._spark.catalog.uncacheTable(topic)
            self._cached.remove(topic)
        elif random.random() < 0.2:
            self._spark.catalog.cacheTable(topic)
            self._cached.add(topic)
        return [tuple(row) for row in self._spark.sql(node.sql("spark")).collect()]

    def as_frames(self, node, random):
        """Part by part: each is a DataFrame, and a part that the query has twice is one DataFrame."""
        made, persisted = {}, []
        frame = self._frame(node, made, persisted, random)
        rows = [tuple(row) for row in frame.collect()]
        for one in persisted:
            one.unpersist()
        return rows

    def _frame(self, node, made, persisted, random):
        if id(node) in made:
            return made[id(node)]
        children = [self._frame(one, made, persisted, random) for one in node.children]
        base = re.fullmatch(r"select .* from (\w+)", node.text)
        if base and base[1] in TOPICS:
            frame = self._frames[base[1]].select(*(f"`{one}`" for one in re.findall(r"`(\w+)`", node.text)))
        else:
            where = re.fullmatch(r"select \* from \{0\} (\w+) where ([^{]*)", node.text)
            if where:
                frame = children[0].alias(where[1]).where(in_dialect(where[2], "spark"))
            elif node.text == "select * from {0} u union all select * from {1} w":
                frame = children[0].union(children[1])
            else:
                names = {f"part{at}": one for at, one in enumerate(children)}
                frame = self._spark.sql(
                    in_dialect(node.text.format(*(f"{{{one}}}" for one in names)), "spark"), **names
                )
        if random.random() < 0.08:
            frame.count()
        if random.random() < 0.06:
            persisted.append(frame.persist())
        made[id(node)] = frame
        return frame

    def _drop_views(self):
        for topic in self._cached:
            self._spark.catalog.uncacheTable(topic)
        self._cached.clear()
        for topic in TOPICS:
            self._spark.catalog.dropTempView(topic)


class AskedOfDuckDB:
    """Queries of one log directory, as `kafkalog sql --engine duckdb` runs them."""

    def __init__(self, _, folder, isolation):
        self._folder, self._isolation = folder, isolation

    def as_duckdb(self, node, random):
        del random
        found = kl.sql(self._folder, node.sql("duckdb"), isolation=self._isolation).read_all()
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


class Tally:
    """What the queries came to."""

    def __init__(self):
        self.different, self.rows, self.ways = [], 0, Counter()

    @property
    def tried(self):
        return sum(self.ways.values())

    def __str__(self):
        ways = ", ".join(f"{way} {count}" for way, count in sorted(self.ways.items()))
        right = self.tried - len(self.different)
        return f"{self.tried} queries ({ways}), {self.rows} rows: {right} right, {len(self.different)} wrong"


def answer_of(database, node):
    """The rows that SQLite gives, in any order, as a Counter."""
    return Counter(map(tuple, database.execute(node.sql("sqlite")).fetchall()))


def plain(rows):
    """Spark's rows in any order, bytes as SQLite has them."""
    return Counter(tuple(map(_hashable, row)) for row in rows)


def _hashable(value):
    """A value of Spark, of which binary values are bytearrays, and headers a list."""
    if isinstance(value, list):
        return tuple(tuple(map(_hashable, one)) for one in value)
    return bytes(value) if isinstance(value, bytearray) else value


def fuzz_sql(spark, folder, *, seed, count, ways=WAYS, show=print, is_over=lambda: False, asked_of=Asked):
    """Ask `count` queries of log directories below `folder`, or fewer if `is_over` says so after one of them.

    The tally; `show` gets the words of each answer that is wrong.
    """
    tally = Tally()
    for number in range(DIRECTORIES):
        made = make_logs(folder / str(number), seed * DIRECTORIES + number)
        isolation = ISOLATIONS[number % len(ISOLATIONS)]
        database, asked = oracle_of(made, is_committed=isolation == "read_committed"), asked_of(spark, made, isolation)
        for at in range(count * number // DIRECTORIES, count * (number + 1) // DIRECTORIES):
            if is_over():
                return tally
            node, random = Chooser(seed * 1_000_000 + at).query(), Random(at)
            way = ways[at % len(ways)]
            wanted = answer_of(database, node)
            tally.ways[way] += 1
            tally.rows += sum(wanted.values())
            try:
                got = plain(getattr(asked, f"as_{way}")(node, random))
            except Exception as error:  # whatever it is: the query has no answer
                got = str(error)[:300]
            if got != wanted:
                tally.different.append(at)
                show(f"query {at} of seed {seed} as {way}: {node.sql('spark')}")
                if isinstance(got, str):
                    show(f"    {got}")
                else:
                    show(f"    {sum(wanted.values())} rows wanted, {sum(got.values())} given; missing"
                         f" {list((wanted - got).items())[:3]}, too many {list((got - wanted).items())[:3]}")  # fmt: skip
    return tally


def session_here(connect):
    """A session with the source; `connect`: one of Spark Connect, whose server is in this process."""
    from tests.support.product_spark import SETTINGS, KafkalogDataSource, session

    # Compiling a query takes longer than running it over so few records.
    interpreted = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    small = {"spark.sql.shuffle.partitions": "2", "spark.sql.warehouse.dir": tempfile.gettempdir(), **interpreted}
    if not connect:
        spark = session("local[2]", settings={**small, **SETTINGS})
        spark.sparkContext.setLogLevel("OFF")
        return spark
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # `session` sees to that otherwise
    builder = SparkSession.builder.remote("local[2]").config("spark.sql.session.timeZone", "UTC")
    for name, value in small.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(KafkalogDataSource)
    return spark


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--engine", choices=("spark", "duckdb"), default="spark")
    parser.add_argument("--connect", action="store_true", help="through Spark Connect, without kafkalog sql")
    parser.add_argument("--minutes", type=float, help="ask no more after so many minutes")
    parser.add_argument("--record", action="store_true", help="put the result into docs/compared.md")
    options = parser.parse_args()
    begun = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="sql-fuzz-"))
    is_duckdb = options.engine == "duckdb"
    spark = None if is_duckdb else session_here(options.connect)
    ways = ("duckdb",) if is_duckdb else ("views", "frames") if options.connect else WAYS
    asked_of = AskedOfDuckDB if is_duckdb else Asked

    def is_over():
        return options.minutes is not None and time.monotonic() - begun > options.minutes * 60

    tally = fuzz_sql(spark, folder, seed=options.seed, count=options.count, ways=ways, is_over=is_over, asked_of=asked_of)  # fmt: skip
    engine = f"DuckDB {metadata.version('duckdb')}" if is_duckdb else f"PySpark {spark.version}"
    with contextlib.suppress(Exception):
        spark.stop()
    shutil.rmtree(folder, ignore_errors=True)
    through = " Connect" if options.connect else ""
    result = f"{tally}; seed {options.seed}, {time.monotonic() - begun:.0f} s"
    print(result)
    if options.record:
        record("`sql`", f"{engine}{through}", result)
    return 1 if tally.different else 0


if __name__ == "__main__":
    sys.exit(main())

"""Differential fuzz of the source `kafkalog` against Spark's own Kafka source: `python -m tests.kafka.fuzz_spark_source`.

A real broker has the topics of spark_topics.py. A case is a set of options; the Kafka source reads from the broker, ours
from its log directory. The rows must be equal, and what one refuses the other must refuse. Exit code 1 if any differs.
"""

import json
import re
import shutil
import sys
import time
from collections import Counter
from random import Random
from typing import Any, NamedTuple

from tests.kafka.broker import Client, broker
from tests.kafka.fuzzing import run_fuzz
from tests.kafka.real_kafka import real_kafka_here
from tests.kafka.spark_connector import connector_jars
from tests.kafka.spark_topics import FIRST_MS, SETTINGS, STEP_MS, logs_of, make_topics
from tests.support.product import RealFilesystem
from tests.support.product_kafka import lookup_time, open_partition

OF_PATIENCE = {
    "kafkaConsumer.pollTimeoutMs": "1500",
    "fetchOffset.numRetries": "1",
    "fetchOffset.retryIntervalMs": "10",
}
"""The Kafka source waits two minutes for records that are not there."""
BY_SPARK = 12
"""Of so many cases one is read through Spark by ours, too; the others by the classes that Spark would call."""
LARGEST = (1 << 63) - 1
_NO_OFFSET = re.compile(
    r"No offset matched from request of topic-partition (?P<partition>\S+) and timestamp (?P<time>\d+)"
)


class Case(NamedTuple):
    """A set of options; all that is random in it comes from the seed."""

    seed: int
    options: dict[str, str]

    def __str__(self):
        return f"{self.seed}: {json.dumps(self.options)}"


class Outcome(NamedTuple):
    """Rows as (topic, partition, offset, timestamp in µs, type, key, value, headers), or why there are none."""

    rows: list[Any] | None = None
    refused: str = ""


class Sources:
    """Both, on one broker."""

    def __init__(self, spark, address, data):
        self._spark, self._address, self._data = spark, address, data

    def theirs(self, options):
        given = {"kafka.bootstrap.servers": self._address, **OF_PATIENCE, **options}
        return self._read(self._spark.read.format("kafka").options(**given))

    def ours(self, options):
        from tests.spark.spark_reading import rows
        from tests.support.product import KafkalogError

        try:
            return Outcome(in_order(rows(self._data, **options)))
        except KafkalogError as error:
            return Outcome(refused=str(error))

    def is_told_of_the_broker(self, theirs):
        """Whether it finds no record at a time where there is one, and `kafkalog lookup-time` says that it would not.

        A broker asks the first segment whose largest timestamp is so late, which cleaning may have emptied.
        """
        found = _NO_OFFSET.search(theirs.refused)
        if found is None:
            return False
        fs = RealFilesystem()
        answer = lookup_time(fs, open_partition(fs, f"{self._data}/{found['partition']}"), int(found["time"]))
        return answer.offset is not None and answer.broker is not None and answer.broker.offset is None

    def ours_by_spark(self, options):
        return self._read(self._spark.read.format("kafkalog").options(**options), str(self._data))

    @staticmethod
    def _read(reader, *path):
        import pyarrow as pa
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            table = reader.load(*path).toArrow()
        except (Py4JError, PySparkException) as error:
            return Outcome(refused=_why(error))
        at = table.schema.get_field_index("timestamp")
        return Outcome(in_order(table.set_column(at, "timestamp", table.column(at).cast(pa.int64()))))


def in_order(table):
    names = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers")
    columns = [table.column(name).to_pylist() if name in table.column_names else None for name in names]
    if columns[-1] is not None:
        columns[-1] = [one and tuple((each["key"], each["value"]) for each in one) for one in columns[-1]]
    return sorted(zip(*(one for one in columns if one is not None), strict=True), key=lambda row: row[:3])


def _why(error):
    from tests.support.product_spark import plain_error

    caused = re.findall(r"^Caused by: (.*)$", str(error), re.MULTILINE)
    return caused[-1][:300] if caused and "Traceback" not in str(error) else str(plain_error(error))


class Chooser:
    """Makes cases of the logs that there are."""

    def __init__(self, seed, logs):
        self._chance = Random(seed)
        self._seed = seed
        self._logs = {(log.topic, log.number): log for log in logs}
        self._topics = sorted({log.topic for log in logs})

    def case(self):
        options, chosen = self._topics_chosen()
        if self._chance.random() < 0.75:
            options |= self._limits(chosen)
        options |= self._of_reading()
        if self._chance.random() < 0.12:
            options |= self._bad_value(chosen)
        if self._chance.random() < 0.1:
            options = {self._any_case(name): value for name, value in options.items()}
        return Case(self._seed, options)

    def _any_case(self, name):
        return name if "." in name else "".join(self._chance.choice([one.upper(), one.lower()]) for one in name)

    def _topics_chosen(self):
        chance = self._chance
        way = chance.choice(["assign", "subscribe", "subscribe", "subscribePattern"])
        if way == "assign":
            chosen = chance.sample(sorted(self._logs), chance.randint(1, 4))
            return {way: json.dumps(_by_topic({one: one[1] for one in chosen}, as_list=True))}, chosen
        if way == "subscribe":
            topics = chance.sample(self._topics, chance.randint(1, 3))
            return {way: chance.choice([",", " , "]).join(topics)}, [one for one in self._logs if one[0] in topics]
        pattern = chance.choice([".*", "tx.*", "c.*|a.*", "em.pty-[0-9]", "times\\.out.*", "(codecs|cleaned)", "tx"])
        return {way: pattern}, [one for one in self._logs if re.search(pattern, one[0]) and one[0][0] != "_"]

    def _limits(self, chosen):
        chance, options = self._chance, {}
        for side in chance.sample(["starting", "ending"], chance.randint(1, 2)):
            for _ in range(chance.choice([1, 1, 1, 2])):
                options |= self._limit(side, chosen)
        if chance.random() < 0.5:
            options["startingOffsetsByTimestampStrategy"] = chance.choice(["latest", "error", "latest"])
        return options

    def _limit(self, side, chosen):
        chance = self._chance
        kind = chance.choice(["word", "offsets", "offsets", "offsets", "times", "time"])
        if kind == "word":
            return {f"{side}Offsets": "earliest" if side == "starting" else "latest"}
        if kind == "offsets":
            offsets = {one: self._offset(side, self._logs[one]) for one in chosen}
            return {f"{side}Offsets": json.dumps(_by_topic(offsets))}
        if kind == "times":
            return {f"{side}OffsetsByTimestamp": json.dumps(_by_topic({one: self._time(side) for one in chosen}))}
        return {f"{side}Timestamp": str(self._time(side))}

    def _offset(self, side, log):
        chance = self._chance
        if chance.random() < 0.2:
            return -2 if side == "starting" else -1
        if chance.random() < 0.02:
            return chance.choice([max(log.start - 5, 0), log.end + 7])
        middle = (log.start + log.end) // 2
        usual = (log.start, middle) if side == "starting" else (middle, log.end)
        return chance.randint(*(usual if chance.random() < 0.9 else (log.start, log.end)))

    def _time(self, side):
        chance = self._chance
        if chance.random() < 0.1:
            return chance.choice([0, 1, FIRST_MS + 10_000 * STEP_MS, LARGEST, int(time.time() * 1000)])
        late = 1_000 if side == "ending" else 0
        return FIRST_MS + chance.randint(-2_000, 600 * STEP_MS + late * STEP_MS)

    def _of_reading(self):
        chance, options = self._chance, {}
        for name, values in (
            ("includeHeaders", ["true", "false", "TRUE"]),
            ("failOnDataLoss", ["true", "false", "false"]),
            ("minPartitions", ["1", "3", "7", "50"]),
            ("maxRecordsPerPartition", ["1", "10", "33", "1000"]),
            ("kafka.isolation.level", ["read_committed", "read_committed", "read_uncommitted"]),
            ("groupIdPrefix", ["somebody"]),
        ):
            if chance.random() < 0.3:
                options[name] = chance.choice(values)
        if options.get("maxRecordsPerPartition") == "1" and chance.random() < 0.9:
            options["maxRecordsPerPartition"] = "20"  # a task of Spark's for each record takes long
        return options

    def _bad_value(self, chosen):
        chance = self._chance
        first = sorted(chosen)[0] if chosen else ("codecs", 0)
        one = {first[0]: {str(first[1]): 3}}
        return chance.choice(
            [
                {"startingOffsets": "latest"}, {"endingOffsets": "earliest"}, {"startingOffsets": "LATEST"},
                {"startingOffsets": json.dumps({first[0]: {str(first[1]): -1}})},
                {"endingOffsets": json.dumps({first[0]: {str(first[1]): -2}})},
                {"startingOffsets": json.dumps(one)}, {"endingOffsets": json.dumps({"nobody": {"0": 1}, **one})},
                {"startingOffsets": "{"}, {"endingOffsets": "7"}, {"startingOffsets": ""}, {"endingOffsets": "none"},
                {"startingOffsets": json.dumps({first[0]: {str(first[1]): -3}})},
                {"startingOffsets": json.dumps({first[0]: [1]})}, {"startingOffsets": '{"codecs": {"x": 1}}'},
                {"startingTimestamp": "soon"}, {"endingTimestamp": ""}, {"startingTimestamp": "1.5"},
                {"startingOffsetsByTimestamp": "{}"}, {"endingOffsetsByTimestamp": json.dumps({first[0]: 5})},
                {"startingOffsetsByTimestamp": "latest"}, {"startingOffsetsByTimestampStrategy": "nearest"},
                {"minPartitions": "0"}, {"minPartitions": "-4"}, {"minPartitions": "many"}, {"minPartitions": ""},
                {"maxRecordsPerPartition": "0"}, {"maxRecordsPerPartition": "-1"}, {"maxRecordsPerPartition": "a"},
                {"failOnDataLoss": "maybe"}, {"includeHeaders": "yes"}, {"includeHeaders": ""},
                {"kafka.isolation.level": "read_everything"}, {"kafka.auto.offset.reset": "earliest"},
                {"kafka.enable.auto.commit": "true"}, {"kafka.key.deserializer": "x"}, {"kafka.group.id": "mine"},
                {"kafka.value.deserializer": "x"}, {"kafka.interceptor.classes": "x"},
                {"assign": "{}"}, {"assign": '{"codecs": 0}'}, {"assign": ""}, {"assign": '{"codecs": ["0"]}'},
                {"subscribe": ""}, {"subscribe": " , "}, {"subscribe": "nobody"}, {"subscribePattern": ""},
                {"subscribePattern": "("}, {"subscribePattern": "nobody.*"}, {"assign": '{"codecs": [77]}'},
            ]
        )  # fmt: skip


def _by_topic(values, *, as_list=False):
    found: dict[str, Any] = {}
    for (topic, number), value in values.items():
        if as_list:
            found.setdefault(topic, []).append(number)
        else:
            found.setdefault(topic, {})[str(number)] = value
    return found


class Tally:
    """What the cases came to."""

    def __init__(self):
        self.tried = self.different = self.rows = 0
        self.outcomes = Counter()

    def note(self, theirs, found):
        self.tried += 1
        self.different += bool(found)
        self.rows += len(theirs.rows or ())
        self.outcomes["refused" if theirs.rows is None else "empty" if not theirs.rows else "with rows"] += 1

    def __str__(self):
        parts = ", ".join(f"{what} {count}" for what, count in sorted(self.outcomes.items()))
        return f"{self.tried} sets of options, {self.rows} rows: {self.tried - self.different} alike, {self.different} differ ({parts})"


def is_divided(case):
    return any(name.lower() in ("minpartitions", "maxrecordsperpartition") for name in case.options)


def differences(case, theirs, ours):
    """What differs, in words; nothing for what docs/spark.md says of how the two differ."""
    if theirs.rows is None and ours.rows is None:
        return []
    if theirs.rows is None:
        return [f"theirs refuses: {theirs.refused}", f"ours has {len(ours.rows)} rows"]
    if ours.rows is None:
        if "The specified start" in ours.refused or ("The resolved start" in ours.refused and is_divided(case)):
            return []  # behind its end: some are empty ranges to theirs, by what else is asked for
        return [f"ours refuses: {ours.refused}", f"theirs has {len(theirs.rows)} rows"]
    if theirs.rows != ours.rows:
        one, other = ([row for row in mine if row not in set(their)][:3] for mine, their in
                      ((theirs.rows, ours.rows), (ours.rows, theirs.rows)))  # fmt: skip
        return [
            f"theirs has {len(theirs.rows)} rows, ours {len(ours.rows)}",
            f"only theirs: {one}",
            f"only ours: {other}",
        ]
    return []


def fuzz_source(sources, logs, *, seed, count, show=print, every=BY_SPARK):
    """Try `count` sets of options; `show` gets each case that differs, and what differs. The tally."""
    tally = Tally()
    for number in range(seed * 1_000_000, seed * 1_000_000 + count):
        case = Chooser(number, logs).case()
        theirs, ours = sources.theirs(case.options), sources.ours(case.options)
        found = differences(case, theirs, ours)
        if found and sources.is_told_of_the_broker(theirs):
            found = []
        if not number % every:
            found += [f"by Spark: {one}" for one in differences(case, theirs, sources.ours_by_spark(case.options))]
        tally.note(theirs, found)
        if found:
            show(case, found)
    return tally


def spark_with_connector(jars):
    """A session with both sources."""
    from tests.support.product_spark import session

    spark = session("local[2]", settings={"spark.jars": jars, "spark.sql.shuffle.partitions": "2"})
    spark.sparkContext.setLogLevel("OFF")
    return spark


def main():
    real = real_kafka_here()
    jars = connector_jars()

    def fuzz(options, folder, kept):
        with broker(folder, real.broker_class_path, SETTINGS) as one:
            one.start()
            with Client(one.address, real.broker_class_path) as client:
                make_topics(client, one.data)
                spark = spark_with_connector(jars)
                sources = Sources(spark, one.address, one.data)
                words = []

                def show(case, found):
                    words.append("\n    ".join([str(case), *found]))
                    print(words[-1], flush=True)

                tally = fuzz_source(sources, logs_of(one.data), seed=options.seed, count=options.count, show=show)
                if tally.different:
                    kept.mkdir(parents=True, exist_ok=True)
                    (kept / "cases.txt").write_text("\n".join(words))
                    shutil.copytree(one.data, kept / "data", dirs_exist_ok=True)
                spark.stop()
        return "", tally

    return run_fuzz(__doc__, 200, fuzz, row='`spark.read.format("kafkalog")`')


if __name__ == "__main__":
    sys.exit(main())

"""Questions to a DataFrame of records, written as users write them; each is asked of the source and of plain rows.

A question takes a DataFrame with the columns of `odd_logs.DDL` and gives a DataFrame, or a list of them.
"""

from pyspark.sql import Window
from pyspark.sql import functions as f

PLACE = ("topic", "partition", "offset")


def by_log(df):
    return Window.partitionBy("topic", "partition").orderBy("offset")


def unions(df):
    return df.where("partition = 0").union(df.where("partition = 1")).unionByName(df.where("offset < 9"))


def union_with_other_columns(df):
    return df.select("topic", "offset").unionByName(df.select("offset", "value"), allowMissingColumns=True)


def self_join(df):
    one, other = df.alias("a"), df.alias("b")
    near = f.expr("a.topic = b.topic and a.partition = b.partition and b.offset between a.offset and a.offset + 2")
    return one.join(other, near).select("a.topic", "a.partition", "a.offset", f.col("b.offset").alias("c"), "b.value")


def joins(df):
    small, large = df.where("offset % 3 = 0"), df.where("offset > 4")
    kinds = ("inner", "left", "right", "full", "left_semi", "left_anti")
    return [small.select(*PLACE).join(large.select(*PLACE, "key"), [*PLACE], kind) for kind in kinds]


def join_of_broadcast(df):
    keys = df.where("topic = 'txn'").select("key").distinct()
    return df.join(f.broadcast(keys), "key").select(*PLACE, "key")


def joins_with_null_keys(df):
    keys = df.select("key").distinct().withColumnRenamed("key", "other")
    return df.join(keys, f.col("key").eqNullSafe(f.col("other"))).groupBy("other").count()


def cached_and_filtered(df):
    kept = df.where("partition < 2").cache()
    first = kept.count()
    found = [kept.where("offset < 5").select(*PLACE), kept.select(*PLACE), kept.groupBy("topic").count()]
    found.append(kept.select(f.lit(first).alias("n")).distinct())
    return found


def filtered_then_whole(df):
    df.where("partition = 1 and offset < 10").count()
    return [df.select(*PLACE), df.where("offset = 28").select(*PLACE), df.groupBy("topic", "partition").count()]


def scalar_subqueries(df):
    df.createOrReplaceTempView("r")
    spark = df.sparkSession
    return [
        spark.sql("select topic, offset from r where offset = (select max(offset) from r x where x.topic = r.topic)"),
        spark.sql("select topic, (select count(*) from r x where x.partition = 2) n from r where offset < 3"),
        spark.sql(
            "select count(*) from r where exists (select 1 from r x where x.key = r.key and x.offset > r.offset)"
        ),
        spark.sql("select topic, offset from r where (topic, offset) not in (select topic, offset + 1 from r)"),
        spark.sql("select * from (select topic t from r) where t in (select topic from r where timestamp_ms < 0)"),
    ]


def windows(df):
    over = by_log(df)
    return df.select(
        *PLACE,
        f.row_number().over(over).alias("n"),
        f.lag("offset").over(over).alias("before"),
        (f.lead("offset", 2).over(over) - f.col("offset")).alias("gap"),
        f.sum(f.length("value")).over(over.rowsBetween(-3, 0)).alias("bytes"),
        f.last("key", ignorenulls=True).over(over).alias("last_key"),
        f.ntile(4).over(over).alias("quarter"),
    )


def newest_by_key(df):
    over = Window.partitionBy("topic", "partition", "key").orderBy(f.desc("offset"))
    return df.withColumn("n", f.row_number().over(over)).where("n = 1 and value is not null").drop("headers")


def pivots(df):
    return [
        df.groupBy("topic").pivot("partition").count(),
        df.groupBy("partition").pivot("topic", ["old", "txn"]).agg(f.max("offset"), f.count("value")),
        df.groupBy("topic").pivot("timestampType").agg(f.min("timestamp_ms")),
    ]


def rollups(df):
    sizes = (f.count("*").alias("n"), f.sum(f.length("value")).alias("bytes"))
    return [
        df.rollup("topic", "partition").agg(*sizes),
        df.cube("topic", "timestampType").agg(*sizes, f.grouping_id().alias("g")),
        df.groupingSets([["topic"], ["partition", "topic"]], "topic", "partition").agg(*sizes),
    ]


def duplicates(df):
    return [
        df.dropDuplicates(["topic", "partition", "key"]).select("topic", "partition", "key"),
        df.select("topic", "key").distinct(),
        df.select("value").dropDuplicates(),
    ]


def set_operations(df):
    some, others = df.where("offset < 12").select("topic", "key"), df.where("offset > 6").select("topic", "key")
    return [some.exceptAll(others), some.intersectAll(others), some.intersect(others), some.subtract(others)]


def all_but_itself(df):
    whole = df.select(*PLACE, "key", "value", "timestamp_ms", "timestampType")
    return [whole.exceptAll(whole), whole.where("offset % 2 = 0").union(whole.where("offset % 2 = 1")).exceptAll(whole)]


def limits(df):
    ordered = df.select(*PLACE).orderBy(*PLACE)
    return [ordered.limit(7), ordered.offset(5).limit(4), ordered.offset(10**6), ordered.limit(0), ordered.limit(10**6)]


def limits_without_order(df):
    return [df.limit(9).agg(f.count("*")), df.offset(11).agg(f.count("*")), df.limit(20).offset(5).agg(f.count("*"))]


def nested(df):
    entry = f.explode("headers").alias("h")
    return [
        df.select(*PLACE, "headers.key", f.col("headers")[0]["value"].alias("first")),
        df.select(*PLACE, entry).select(*PLACE, "h.key", "h.value"),
        df.select(*PLACE, f.explode_outer("headers.key").alias("k")).groupBy("topic", "k").count(),
        df.select(*PLACE, f.posexplode_outer("headers")).where("pos is null or pos > 0"),
        df.where("headers is null").groupBy("topic").count(),
        df.where(f.exists("headers", lambda one: one["value"].isNull())).select(*PLACE),
    ]


def arrays(df):
    return [
        df.select(*PLACE, f.size("headers"), f.transform("headers", lambda one: f.length(one["value"])).alias("l")),
        df.select(*PLACE, f.filter("headers", lambda one: one["key"] == "h").alias("hs")).where("size(hs) > 0"),
        df.groupBy("topic").agg(f.sort_array(f.collect_list("offset")).alias("all"), f.collect_set("partition")),
        df.where("size(headers) = 1").select(*PLACE, f.map_from_entries("headers")),
        df.select(
            f.array_max("headers.key"), f.aggregate("headers", f.lit(0), lambda n, one: n + f.length(one["key"]))
        ),
    ]


def decoded(df):
    text = df.where("value is not null").select(*PLACE, f.col("value").cast("string").alias("v"))
    parsed = text.select(*PLACE, f.from_json("v", "a int, b array<int>").alias("j"))
    return [
        text,
        parsed.select(*PLACE, "j.a", f.size("j.b")),
        text.select(*PLACE, f.get_json_object("v", "$.b[1]"), f.try_parse_json("v").cast("string")),
        df.select(*PLACE, f.md5("value"), f.crc32("key"), f.base64("key"), f.hex("key")),
    ]


def aggregates(df):
    return [
        df.groupBy("topic").agg(
            f.count("key"), f.countDistinct("key"), f.min("value"), f.max("value"), f.max_by("key", "offset"),
            f.count_if(f.col("value").isNull()), f.percentile("offset", 0.5), f.bit_xor("offset"),
        ),
        df.agg(f.count("*"), f.sum("offset"), f.min("timestamp_ms"), f.max("timestamp_ms")),
        df.groupBy().count(),
        df.groupBy("topic").count().where("count > 50"),
    ]  # fmt: skip


def shuffled(df):
    return [
        df.repartition(3, "key").groupBy("key").count(),
        df.repartitionByRange(4, "offset").select(*PLACE),
        df.coalesce(1).select(*PLACE),
        df.sortWithinPartitions("offset").select(*PLACE, "value"),
        df.hint("rebalance").select("key"),
    ]


def expressions_in_filters(df):
    conditions = (
        "offset in (1, 3, 28, 29, 41)", "offset between 20 and 28", "offset <=> 28", "not (offset > 3)", "key is null",
        "offset < 3 or offset > 30", "topic like 't%' and partition != 1", "value = x'' or key = x'6b31'",
        "timestamp_ms = -1", "length(value) > 100", "offset + 1 = 7", "partition = 0 and false", "cast(offset as string) = '7'",
        "coalesce(headers[0].key, 'none') = 'none'", "timestampType < 0", "offset = 28L and partition = 2", "offset < 2.5",
        "startswith(cast(key as string), 'k')", "partition in (select 1)", "offset > (select 5)",
    )  # fmt: skip
    return [df.where(one).select(*PLACE, "key") for one in conditions]


def times(df):
    at = f.timestamp_millis("timestamp_ms")
    timed = df.withColumn("at", at)
    return [
        timed.groupBy(f.window("at", "200 milliseconds")).count(),
        timed.groupBy(f.date_trunc("second", "at")).agg(f.max("offset")),
        timed.where("at >= timestamp'2023-11-14 22:13:20.1'").select(*PLACE),
        timed.where(f.col("timestamp_ms") < 0).groupBy("topic").count(),
    ]


def functional(df):
    def keyed(some):
        return some.where("key is not null")

    return df.transform(keyed).withColumns({"k": f.col("key"), "n": f.col("offset") * 2}).drop("key").filter("n > 4")


def nulls(df):
    return [
        df.na.drop(subset=["key", "value"]).select(*PLACE),
        df.na.fill({"partition": -1}).groupBy("partition").count(),
        df.selectExpr("nvl(key, x'00') k", "nullif(offset, 3) o"),
    ]


def unpivoted(df):
    wide = df.select(*PLACE, f.col("timestamp_ms").alias("t"))
    return wide.unpivot(["topic", "partition"], ["offset", "t"], "what", "n").groupBy("topic", "what").agg(f.sum("n"))


def checkpointed(df):
    kept = df.where("partition = 2").localCheckpoint()
    return [kept.select(*PLACE), kept.union(df).groupBy("topic").count(), df.select(*PLACE)]


def persisted_on_disk(df):
    from pyspark import StorageLevel

    kept = df.persist(StorageLevel.DISK_ONLY)
    found = [kept.where("offset > 5").groupBy("topic").count(), kept.limit(3).agg(f.count("*")), kept.select(*PLACE)]
    rows = [one.collect() for one in found]
    kept.unpersist()
    assert [sorted(map(str, one.collect())) for one in found] == [sorted(map(str, one)) for one in rows]
    return found


TEXTS = (
    "select topic, partition, count(*) from both group by all",
    "select count(*) from both join low using (topic, partition, offset)",
    "with a as (select * from low), b as (select * from a where partition = 0) select count(*) from a, b where a.offset = b.offset",
    "from r |> where offset < 20 |> aggregate count(*) n group by topic |> join (select distinct topic from low) using (topic)",
    "select r.offset, e.x from r, lateral (select explode(sequence(0, r.partition)) x) e where r.offset < 6",
    "select topic, offset from r qualify row_number() over (partition by topic order by partition, offset) <= 2",
    "with recursive n(i) as (select 0 union all select i + 1 from n where i < 9)"
    " select i, count(r.offset) from n left join r on r.offset = i group by i",
    "select * from (select topic, partition, offset from r) pivot (count(offset) for partition in (0, 1))",
    "(select key from r where partition = 0) except all (select key from r where partition = 1)",
    "select topic, offset from r order by all limit 12 offset 3",
)


def views_within_views(texts):
    """A question of these texts: all of them at once take as long as 20 other questions."""

    def question(df):
        df.createOrReplaceTempView("r")
        spark = df.sparkSession
        spark.sql("create or replace temporary view low as select * from r where offset < 10")
        spark.sql(
            "create or replace temporary view both as select * from low union all select * from r where partition = 1"
        )
        return [spark.sql(text) for text in texts]

    question.__name__ = f"views_within_views_{TEXTS.index(texts[0])}"
    return question


def counted_in_python(df):
    return df.rdd.map(lambda row: (row.topic, 1)).reduceByKey(lambda one, other: one + other).toDF(["topic", "n"])


def sampled(df):
    """The same sample each time, of the rows that there are."""
    kept = df.select(*PLACE).sample(fraction=0.3, seed=7)
    assert sorted(map(tuple, kept.collect())) == sorted(map(tuple, kept.collect()))
    low, high = df.select(*PLACE).randomSplit([0.4, 0.6], seed=3)
    return [low.union(high), kept.subtract(df.select(*PLACE))]


QUESTIONS = [
    unions, union_with_other_columns, self_join, joins, join_of_broadcast, joins_with_null_keys, cached_and_filtered,
    filtered_then_whole, scalar_subqueries, windows, newest_by_key, pivots, rollups, duplicates, set_operations,
    all_but_itself, limits, limits_without_order, nested, arrays, decoded, aggregates, shuffled, expressions_in_filters,
    times, functional, nulls, unpivoted, checkpointed, persisted_on_disk, *map(views_within_views, zip(TEXTS[::2], TEXTS[1::2], strict=True)), counted_in_python,
    sampled,
]  # fmt: skip


def answers(question, df):
    """The rows of each answer, sorted."""
    found = question(df)
    return [rows_of(one) for one in (found if isinstance(found, list) else [found])]


def rows_of(df):
    """The rows, sorted, with bytes and tuples for what Spark makes of them."""
    return sorted(map(plain, df.collect()), key=repr)


def plain(value):
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if isinstance(value, (tuple, list)):
        return tuple(map(plain, value))
    if isinstance(value, dict):
        return tuple(sorted((plain(key), plain(one)) for key, one in value.items()))
    return value

"""A driver of its own, for test_spark_cluster.py: one session on a cluster, in which commands are run one by one.

Arguments: the master's URL, a log directory, a directory that all workers see, a JSON list of command lines, and "streams" if
a stream and a DataFrame are written too. Prints JSON: where tasks ran, what a count and the stream came to, and of each command
its exit code and what it said.
"""

import io
import json
import os
import sys
import time
from pathlib import Path

from tests.support.product import Environment, run
from tests.support.product_spark import SETTINGS, session

OF_THE_CLUSTER = {
    **SETTINGS,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": os.environ.get("SPARK_DAEMON_JAVA_OPTS", ""),
    "spark.ui.enabled": "false",
}


def place(_):
    time.sleep(0.2)
    return Path.cwd().name  # .../work/app-.../1: the executor's number


def main(master, log_dir, shared, commands, with_streams):
    spark = session(master, settings=OF_THE_CLUSTER)
    until = time.monotonic() + 480
    places = set()
    while len(places) < 2 and time.monotonic() < until:
        places |= set(spark.sparkContext.parallelize(range(4), 4).map(place).collect())
    count = spark.read.format("kafkalog").option("columns", "partition").load(log_dir).count()
    streamed = write_streams(spark, log_dir, shared) if with_streams else None
    said = []
    for command in commands:
        streams = io.BytesIO(), io.BytesIO()
        code = run([*command, "--master", master], Environment(stdout=streams[0], stderr=streams[1]))
        said.append([code, *(stream.getvalue().decode() for stream in streams)])
    spark.stop()
    print(json.dumps({"places": sorted(places), "count": count, "streamed": streamed, "said": said}))


def write_streams(spark, log_dir, shared):
    """Write a stream as Parquet, and the records as a DataFrame to another log directory; return the rows of the stream."""
    stream = spark.readStream.format("kafkalog").option("startingOffsets", "earliest").load(log_dir)
    writer = stream.select("topic", "partition", "offset").writeStream
    options = {"checkpointLocation": f"{shared}/checkpoint", "path": f"{shared}/streamed"}
    writer.format("parquet").options(**options).trigger(availableNow=True).start().awaitTermination()
    streamed = spark.read.parquet(f"{shared}/streamed").count()
    columns = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
    rows = spark.read.format("kafkalog").option("includeHeaders", "true").load(log_dir).select(*columns)
    rows.write.format("kafkalog").mode("append").save(f"{shared}/written")
    return streamed


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4]), sys.argv[5:] == ["streams"])

"""Options: the names, precedence and refusals of Spark's Kafka source; what is not known is refused."""

import re
from pathlib import Path

import pytest

from kafkalog_cli.ops.choices import Isolation, Mode
from kafkalog_cli.ops.ranges import Range
from kafkalog_cli.ops.scans.offset_limits import LimitKind, TopicPartition
from kafkalog_cli.ops.scans.options import OF_RANGES, OURS, STRATEGIES, read_options
from kafkalog_cli.ops.scans.schema import BY_NAME
from tests.support.product import UsageError

REFUSED = [
    ({"subscribes": "a"}, "unknown option 'subscribes'; there are assign, "),
    ({"kafka.auto.offset.reset": "none"}, "Kafka option 'auto.offset.reset' is not supported"),
    ({"kafka.key.deserializer": "x"}, "Kafka option 'key.deserializer' is not supported"),
    ({"kafka.value.deserializer": "x"}, "Kafka option 'value.deserializer' is not supported"),
    ({"kafka.enable.auto.commit": "x"}, "Kafka option 'enable.auto.commit' is not supported"),
    ({"kafka.interceptor.classes": "x"}, "Kafka option 'interceptor.classes' is not supported"),
    ({"subscribe": "a", "assign": '{"a":[0]}'}, "Only one of the following options can be specified for Kafka source"),
    ({"assign": "a"}, "No topicpartitions to assign as specified value for option 'assign' is 'a'"),
    ({"assign": '{"a":["0"]}'}, r'Expected e.g. {"topicA":\[0,1\],"topicB":\[0,1\]}, got {"a":\["0"\]}'),
    ({"assign": "{"}, "Expected e.g. .* got {"),
    ({"subscribe": " , "}, "No topics to subscribe to as specified value for option 'subscribe' is ' , '"),
    ({"subscribePattern": " "}, "Pattern to subscribe is empty as specified value for option 'subscribePattern'"),
    ({"subscribePattern": "("}, "option 'subscribePattern' is not a regular expression"),
    ({"startingOffsets": "Latest"}, "starting offset can't be latest for batch queries on Kafka"),
    ({"startingOffsets": '{"a":{"0":-1}}'}, "startingOffsets for a-0 can't be latest for batch queries on Kafka"),
    ({"endingOffsets": "earliest"}, "ending offset can't be earliest for batch queries on Kafka"),
    ({"endingOffsets": '{"a":{"0":-2}}'}, "ending offset for a-0 can't be earliest for batch queries on Kafka"),
    ({"startingOffsets": '{"a":{"0":-3}}'}, "Expected e.g. .*topicA.*23,.* got"),
    ({"startingOffsets": '{"a":{"x":3}}'}, "Expected e.g. "),
    ({"startingOffsets": '{"a":[3]}'}, "Expected e.g. "),
    ({"startingOffsets": '{"a":{"0":true}}'}, "Expected e.g. "),
    ({"startingOffsets": "soon"}, "Expected e.g. .*, got soon"),
    ({"startingOffsetsByTimestamp": '{"a":{"0":-1}}'}, "Expected e.g. .*123456789"),
    ({"startingTimestamp": "1.5"}, "Expected a single long value, got 1.5"),
    ({"endingTimestamp": "9" * 19}, "Expected a single long value, got 9999"),
    (
        {"startingOffsets": '{"a":{"0":1}}', "endingOffsets": '{"a":{"1":2}}'},
        r"should have the same topic-partitions. .*start offset: \[a-0\], topic-partitions for end offset: \[a-1\]",
    ),
    (
        {"startingOffsets": '{"a":{"0":7}}', "endingOffsets": '{"a":{"0":6}}'},
        "The specified start offset 7 is greater than the end offset 6 for topic a partition 0",
    ),
    (
        {"startingOffsetsByTimestamp": '{"a":{"0":7}}', "endingOffsetsByTimestamp": '{"a":{"0":6}}'},
        "The specified start timestamp 7 is greater than the end timestamp 6 for topic a partition 0",
    ),
    ({"startingOffsetsByTimestampStrategy": "never"}, "Strategy is one of error, latest; not never"),
    ({"minPartitions": "0"}, "minPartitions must be positive"),
    ({"minPartitions": "many"}, "minPartitions is a number, not many"),
    ({"maxRecordsPerPartition": "-1"}, "maxRecordsPerPartition must be positive"),
    ({"failOnDataLoss": "perhaps"}, "failOnDataLoss is true or false, not perhaps"),
    ({"includeHeaders": "1"}, "includeHeaders is true or false, not 1"),
    ({"isolation": "serializable"}, "isolation is one of read_uncommitted, read_committed; not serializable"),
    ({"kafka.isolation.level": "x"}, "kafka.isolation.level is one of"),
    ({"isolation": "read_committed", "kafka.isolation.level": "read_uncommitted"}, "say different things"),
    ({"mode": "strict"}, "mode is one of failfast, dropmalformed, permissive; not strict"),
    ({"pushdown": "perhaps"}, "pushdown is true or false, not perhaps"),
    ({"columns": "key,size"}, "there is no column size"),
    ({"columns": "key,key"}, "each column once"),
    ({"path": ""}, "option 'path' must be given"),
    ({"paths": "a,b"}, "paths is a JSON list of paths, not a,b"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED, ids=lambda one: str(one)[:60])
def test_read_options_refuses_wrong_values(options, message):
    with pytest.raises(UsageError, match=message):
        read_options({"path": "x", **options})


def test_read_options_requires_a_path():
    with pytest.raises(UsageError, match="option 'path' must be given"):
        read_options({})


def test_defaults_and_a_job_as_it_is():
    found = read_options({"path": "x"})
    assert (found.starting.kind, found.ending.kind) == (LimitKind.EARLIEST, LimitKind.LATEST)
    assert (found.fail_on_data_loss, found.mode) == (True, Mode.FAILFAST)
    assert (found.isolation, found.records) == (Isolation.READ_UNCOMMITTED, Range())
    of_a_job = {"kafka.bootstrap.servers": "b:9092", "kafka.security.protocol": "SSL", "groupIdPrefix": "g"}
    of_a_job |= {"kafka.isolation.level": "read_committed", "fetchOffset.numRetries": "3", "SUBSCRIBE": "a, b"}
    found = read_options({"path": "x", **of_a_job})
    assert found.isolation is Isolation.READ_COMMITTED
    assert found.topics.subscribed == {"a", "b"}
    assert read_options({"paths": '["a","b"]'}).paths == ("a", "b")
    assigned = read_options({"path": "x", "assign": '{"a":[0,2]}'}).topics.assigned
    assert assigned == {TopicPartition("a", 0), TopicPartition("a", 2)}


def test_offsets_win_over_timestamps_of_partitions_and_those_over_one_timestamp():
    every = {
        "startingOffsets": '{"a":{"0":3}}',
        "startingOffsetsByTimestamp": '{"a":{"0":5}}',
        "startingTimestamp": "7",
    }
    assert read_options({"path": "x", **every}).starting.time_ms == 7
    del every["startingTimestamp"]
    found = read_options({"path": "x", **every}).starting
    assert (found.kind, found.of_partition) == (LimitKind.TIMES, {TopicPartition("a", 0): 5})
    del every["startingOffsetsByTimestamp"]
    assert read_options({"path": "x", **every}).starting.kind is LimitKind.OFFSETS
    ends = {"endingOffsets": '{"a":{"0":3}}', "endingOffsetsByTimestamp": '{"a":{"0":5}}', "endingTimestamp": "7"}
    assert read_options({"path": "x", **ends}).ending.kind is LimitKind.TIME
    assert not read_options({"path": "x", "startingTimestamp": "1"}).starting.or_latest
    latest = {"startingTimestamp": "1", "startingOffsetsByTimestampStrategy": "LATEST"}
    assert read_options({"path": "x", **latest}).starting.or_latest


def test_the_spark_page_lists_every_option():
    page = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
    for name in (*STRATEGIES, *OF_RANGES, *OURS, *BY_NAME):
        assert re.search(rf"\b{name}\b", page), name

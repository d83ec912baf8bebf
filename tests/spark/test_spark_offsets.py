"""Which partitions and offsets a read takes: choices of topics, limits by offset and time, what is not on the disk."""

import pytest

from tests.spark.spark_reading import rows, subset, tasks
from tests.support.logs import BASE_TIME_MS, R, batch_v2
from tests.support.product import NothingSelected, NotKafkaLayout, OffsetOutOfRange, PathNotFound, UsageError


@pytest.fixture
def folder(tmp_path):
    """Two topics: orders with offsets 10 to 19 and 0 to 4, a second apart; visits with 0 to 2."""
    for name, first, count in (("orders-0", 10, 10), ("orders-1", 0, 5), ("visits-0", 0, 3)):
        (tmp_path / name).mkdir()
        data = b"".join(batch_v2([R(i, BASE_TIME_MS + i * 1000, b"k", b"v")]) for i in range(first, first + count))
        (tmp_path / name / f"{first:020d}.log").write_bytes(data)
    return tmp_path


def taken(folder, **options):
    found = {}
    for row in rows(folder, subset("topic", "partition", "offset"), **options).to_pylist():
        found.setdefault(f"{row['topic']}-{row['partition']}", []).append(row["offset"])
    return {name: (min(some), max(some)) for name, some in found.items()}


EVERYTHING = {"orders-0": (10, 19), "orders-1": (0, 4), "visits-0": (0, 2)}
ORDERS = {name: limits for name, limits in EVERYTHING.items() if name != "visits-0"}


def test_the_data_source_selects_topics_by_name_list_and_pattern(folder):
    assert taken(folder) == EVERYTHING
    assert taken(folder, subscribe="orders") == ORDERS
    assert taken(folder, subscribe="orders, visits") == EVERYTHING
    assert taken(folder, assign='{"orders":[1],"visits":[0]}') == {"orders-1": (0, 4), "visits-0": (0, 2)}
    assert taken(folder, subscribePattern="^v|x") == {"visits-0": (0, 2)}
    assert taken(folder, subscribePattern="rd") == ORDERS  # found anywhere in the name
    assert taken(folder / "orders-1") == {"orders-1": (0, 4)}
    assert taken(str(folder / "ord*")) == ORDERS
    assert taken("ignored", paths=f'["{folder}/orders-0", "{folder}/visits-0"]').keys() == {"orders-0", "visits-0"}
    for wrong, message in (
        ({"subscribe": "orders,nobody"}, "nobody not found under"),
        ({"assign": '{"orders":[1,7]}'}, "orders-7 not found under"),
        ({"subscribePattern": "nobody"}, "no topic matches the pattern"),
    ):
        with pytest.raises(NothingSelected, match=message):
            tasks(folder, **wrong)
    with pytest.raises(PathNotFound):
        tasks(folder / "nowhere")
    (folder / "empty").mkdir()
    with pytest.raises(NotKafkaLayout):
        tasks(folder / "empty")


def test_the_data_source_selects_no_internal_topics_by_pattern(folder):
    data = batch_v2([R(0, BASE_TIME_MS, b"k", b"v")])
    internal = ("__cluster_metadata-0", "__consumer_offsets-0", "__share_group_state-0", "__transaction_state-0")
    for name in (*internal, "__ours-0"):  # Topic.isInternal knows names, not prefixes
        (folder / name).mkdir()
        (folder / name / f"{0:020d}.log").write_bytes(data)
    gone = folder / ("visits-1." + "0" * 32 + "-delete")
    gone.mkdir()
    (gone / f"{0:020d}.log").write_bytes(data)
    assert taken(folder, subscribePattern=".").keys() == {*EVERYTHING, "__ours-0"}
    assert taken(folder).keys() == {*EVERYTHING, *internal, "__ours-0"}
    assert taken(folder, subscribe="__consumer_offsets").keys() == {"__consumer_offsets-0"}
    assert taken(gone).keys() == {"visits-1"}


def test_the_data_source_refuses_a_partition_in_two_directories(folder, tmp_path):
    other = tmp_path / "other" / "orders-1"
    other.mkdir(parents=True)
    (other / f"{0:020d}.log").write_bytes(batch_v2([R(0, 0)]))
    both = f'["{folder}", "{other}"]'
    with pytest.raises(UsageError, match=r"orders-1 is in .*orders-1 and in .*other/orders-1: give only one"):
        tasks("ignored", paths=both)
    assert taken("ignored", paths=both, subscribe="visits") == {"visits-0": (0, 2)}


def test_the_data_source_starts_and_ends_at_given_offsets(folder):
    start, end = '{"orders":{"0":12,"1":-2}}', '{"orders":{"0":15,"1":-1}}'
    orders = {"subscribe": "orders"}
    assert taken(folder, startingOffsets=start, **orders) == {"orders-0": (12, 19), "orders-1": (0, 4)}
    assert taken(folder, endingOffsets=end, **orders) == {"orders-0": (10, 14), "orders-1": (0, 4)}
    assert taken(folder, startingOffsets=start, endingOffsets=end, **orders)["orders-0"] == (12, 14)
    assert taken(folder, startingOffsets="earliest", endingOffsets="latest") == EVERYTHING
    nothing = '{"orders":{"0":20,"1":5}}'
    assert taken(folder, startingOffsets=nothing, **orders) == {}
    for name in ("startingOffsets", "endingOffsets"):
        with pytest.raises(UsageError, match=r"Specified: \[orders-0\] Assigned: \[orders-0, orders-1\]"):
            tasks(folder, **{name: '{"orders":{"0":12}}'}, **orders)


@pytest.mark.parametrize(
    ("options", "what", "without"),
    [
        ({"startingOffsets": '{"orders":{"0":9}}'}, "the starting offset 9 of orders-0", (10, 19)),
        ({"startingOffsets": '{"orders":{"0":21}}'}, "the starting offset 21 of orders-0", None),
        ({"endingOffsets": '{"orders":{"0":9}}'}, "the ending offset 9 of orders-0", None),
        ({"endingOffsets": '{"orders":{"0":21}}'}, "the ending offset 21 of orders-0", (10, 19)),
    ],
)
def test_the_data_source_refuses_offsets_that_are_not_on_the_disk(folder, options, what, without):
    only = {"assign": '{"orders":[0]}', **options}
    with pytest.raises(OffsetOutOfRange, match=f"{what} is outside the log, valid range is 10 to 20"):
        tasks(folder, **only)
    assert taken(folder, **only, failOnDataLoss="false").get("orders-0") == without


def test_the_data_source_starts_and_ends_at_given_times(folder):
    def at(seconds):
        return str(BASE_TIME_MS + seconds * 1000)

    orders = {"subscribe": "orders"}
    assert taken(folder, startingTimestamp=at(3), **orders) == {"orders-0": (10, 19), "orders-1": (3, 4)}
    assert taken(folder, endingTimestamp=at(3), **orders) == {"orders-1": (0, 2)}
    assert taken(folder, endingTimestamp=at(12), **orders) == {"orders-0": (10, 11), "orders-1": (0, 4)}
    by_partition = f'{{"orders":{{"0":{at(12)},"1":{at(2)}}}}}'
    found = taken(folder, startingOffsetsByTimestamp=by_partition, **orders)
    assert found == {"orders-0": (12, 19), "orders-1": (2, 4)}
    found = taken(folder, endingOffsetsByTimestamp=by_partition, startingOffsets="earliest", **orders)
    assert found == {"orders-0": (10, 11), "orders-1": (0, 1)}
    with pytest.raises(UsageError, match=f"No offset matched from request of topic-partition orders-1 .* {at(9)}"):
        tasks(folder, startingTimestamp=at(9), **orders)
    latest = {"startingOffsetsByTimestampStrategy": "latest", **orders}
    assert taken(folder, startingTimestamp=at(13), **latest) == {"orders-0": (13, 19)}
    with pytest.raises(
        UsageError, match=r"Kafka timestamp based end offsets don't match what are assigned\. Specified"
    ):
        tasks(folder, endingOffsetsByTimestamp='{"orders":{"0":1}}', **orders)


def test_the_data_source_refuses_a_start_behind_its_end(folder):
    options = {"assign": '{"orders":[0]}', "startingOffsets": '{"orders":{"0":15}}'}
    options["endingTimestamp"] = str(BASE_TIME_MS + 12_000)
    for loss in ("true", "false"):
        with pytest.raises(UsageError, match="The resolved start offset 15 is greater than the resolved end offset 12"):
            tasks(folder, **options, failOnDataLoss=loss)

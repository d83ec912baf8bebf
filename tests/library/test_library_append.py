"""The library's append: the files are those of the command for the same records, with its refusals, locks and undo."""

import base64
import json
import os
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kafkalog_cli as kl
from tests.support.commands import kafkalog, tree, writable_copy
from tests.support.logs import BASE_TIME_MS
from tests.support.product import BadInput, Locked, Refused, UsageError
from tests.support.strategies import contents, headers, timestamps

pa = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings("ignore::kafkalog_cli.LogWarning")

NOW_MS = BASE_TIME_MS + 10**9
WIDE = {"segment.ms": 2**62, "message.timestamp.after.max.ms": 2**63 - 1, "max.message.bytes": 10**8}
GIVEN = {"single_replica": True, "now": NOW_MS, "config": WIDE}
ARGUMENTS = (
    "--single-replica",
    "--now",
    NOW_MS,
    *(word for item in WIDE.items() for word in ("--config", "{}={}".format(*item))),
)
HEADERS = pa.list_(pa.struct([pa.field("key", pa.binary(), nullable=False), pa.field("value", pa.binary())]))
MARKER = ".kafka_cleanshutdown"


def empty(folder):
    (folder / "t-0").mkdir(parents=True)
    for suffix in ("log", "index", "timeindex"):
        (folder / "t-0" / f"{0:020d}.{suffix}").touch()
    return folder / "t-0"


def files(partition):
    """By name; the index of a segment that is still active has its entries, and nothing behind."""
    return {path.name: path.read_bytes() for path in partition.iterdir() if path.is_file()}


def column(records, name, kind):
    return pa.array([record[name] for record in records], kind)


def table(records):
    columns = {
        "key": column(records, "key", pa.binary()),
        "value": column(records, "value", pa.binary()),
        "headers": column(records, "headers", HEADERS),
        "timestamp": column(records, "timestamp", pa.int64()),
    }
    return pa.table(columns)


def text_of(data):
    return None if data is None else {"encoding": "base64", "data": base64.b64encode(data).decode()}


def lines(records):
    """The same as NDJSON."""
    for record in records:
        pairs = [{"key": text_of(one["key"]), "value": text_of(one["value"])} for one in record["headers"]]
        fields = {"key": text_of(record["key"]), "value": text_of(record["value"]), "headers": pairs}
        yield json.dumps({**fields, "timestamp_ms": record["timestamp"]}).encode() + b"\n"


RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "key": contents,
            "value": contents,
            "headers": headers.map(lambda pairs: [{"key": key, "value": value} for key, value in pairs]),
            "timestamp": st.none() | timestamps.filter(lambda found: 0 <= found < 2**62),
        }
    ),
    max_size=60,
)


@settings(suppress_health_check=list(HealthCheck), deadline=None)
@given(
    records=RECORDS,
    codec=st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"]),
    batch_bytes=st.sampled_from([1, 200, 16384]),
    cuts=st.integers(1, 20),
    chain=st.booleans(),
)
def test_append_of_the_library_writes_the_same_files_as_the_command(
    tmp_path_factory, records, codec, batch_bytes, cuts, chain
):
    one, other = (empty(tmp_path_factory.mktemp(name)) for name in ("library", "command"))
    data = table(records)
    parts = [part for first in range(0, len(records), cuts) for part in data.slice(first, cuts).to_batches()]
    done = kl.open_partition(one).append(iter(parts) if chain else data, codec=codec, batch_bytes=batch_bytes, **GIVEN)
    argv = ("append", other, "--codec", codec, "--batch-bytes", batch_bytes, *ARGUMENTS)
    code, _, err = kafkalog(*argv, stdin=b"".join(lines(records)))
    assert code == 0, err
    assert files(one) == files(other)
    assert (done.records, done.first_offset, done.end_offset) == (len(records), 0, len(records))
    assert (done.run is None) == (not records)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.large_binary(), pa.binary()])
def test_append_takes_sliced_arrays_of_any_string_and_list_type(tmp_path, kind):
    """Sliced arrays, nulls, headers under large lists and null lists that hold something."""
    values = pa.array(["cut off", "one", None, "", "four"], kind)[1:]
    pairs = pa.struct([pa.field("key", kind), pa.field("value", kind)])
    items = pa.array([{"key": "x", "value": "hidden"}, {"key": "h", "value": None}, {"key": "", "value": "v"}], pairs)
    lists = pa.ListArray.from_arrays(
        pa.array([0, 0, 1, 1, 3, 3]), items, mask=pa.array([False, True, False, False, False])
    )
    if kind == pa.large_string():
        lists = lists.cast(pa.large_list(pairs))
    times = pa.array([0, 1_999_999, None, 2_000_000, 3], pa.timestamp("us"))[1:]
    data = pa.RecordBatch.from_arrays([values, lists[1:], times], names=["value", "headers", "timestamp"])
    log = kl.open_partition(empty(tmp_path))
    log.append(data, **GIVEN)
    found = pa.Table.from_batches(log.records())
    assert found.column("value").to_pylist() == [b"one", None, b"", b"four"]
    assert found.column("key").null_count == 4
    assert [None if time is None else time.timestamp() for time in found.column("timestamp").to_pylist()] == [
        1.999,
        None,
        2.0,
        0.0,
    ]
    none, pair = [], [{"key": b"h", "value": None}, {"key": b"", "value": b"v"}]
    assert found.column("headers").to_pylist() == [none, none, pair, none]


def test_append_without_a_timestamp_column_uses_now(tmp_path):
    log = kl.open_partition(empty(tmp_path))
    log.append(pa.table({"value": pa.nulls(3)}), **GIVEN)
    (part,) = log.records()
    assert part.column("timestamp").cast(pa.int64()).to_pylist() == [NOW_MS] * 3
    assert part.column("value").null_count == 3


def test_append_takes_keys_and_values_of_the_arrow_types_that_import_takes(tmp_path):
    log = kl.open_partition(empty(tmp_path))
    key = pa.array(["a", None, "b"]).dictionary_encode()
    value = pa.array([b"x", None, b"too long to be in a view"]).cast(pa.binary_view())
    log.append(pa.table({"key": key, "value": value, "headers": pa.nulls(3), "offset": ["no", "number", ""]}), **GIVEN)
    (part,) = log.records()
    assert part.column("key").to_pylist() == [b"a", None, b"b"]
    assert part.column("value").to_pylist() == [b"x", None, b"too long to be in a view"]


def test_append_takes_the_batches_that_records_gives(tmp_path, corpus):
    source = kl.open_partition(next((corpus / "v2-mixed" / "data").glob("*-0")))
    target = kl.open_partition(empty(tmp_path))
    target.append(source.records(), **GIVEN)
    columns = ["key", "value", "headers", "timestamp"]
    one, other = (pa.Table.from_batches(log.records(columns=columns)).to_pylist() for log in (source, target))
    assert len(one) > 5
    assert one == other


# -- a log directory of a broker


@pytest.fixture
def root(corpus, tmp_path):
    return writable_copy(corpus / "txn" / "data", tmp_path / "data")


ONE = {"value": [b"new"]}


def test_the_marker_comes_back_and_undo_takes_it_back(root):
    before = tree(root)
    assert MARKER in before
    log = kl.open_partition(root / "idem-0")
    done = log.append(pa.table(ONE), single_replica=True)
    assert (root / MARKER).exists()
    assert log.offsets().end == done.end_offset
    assert kafkalog("verify", root, "--level", "deep")[0] == 0
    code, _, err = kafkalog("undo", root / "idem-0", done.run)
    assert code == 0, err
    assert tree(root) == before


def test_a_damaged_segment_keeps_the_marker_away(root):
    path = sorted((root / "idem-0").glob("*.log"))[-1]
    data = bytearray(path.read_bytes())
    data[99] ^= 1
    path.write_bytes(data)
    with pytest.warns(kl.LogWarning, match="leaves every in-sync replica set"):
        kl.open_partition(root / "idem-0").append(pa.table(ONE), single_replica=True)
    assert not (root / MARKER).exists()


@pytest.mark.parametrize("ending", ["commit", "abort", "open"])
def test_append_writes_a_transaction_with_its_marker(root, ending):
    log = kl.open_partition(root / "idem-0")
    end = log.offsets().end
    done = log.append(pa.table(ONE), single_replica=True, producer_id=4711, transaction=ending)
    assert (done.first_offset, done.records, done.batches) == (end, 1 + (ending != "open"), 1 + (ending != "open"))
    seen = [part.num_rows for part in log.records(from_offset=end, isolation="read_committed")]
    assert sum(seen) == (ending == "commit")


def raising():
    yield pa.RecordBatch.from_pydict({"value": [b"x" * 300] * 9000})
    raise ZeroDivisionError


BAD = {
    "not known to be the only replica": (Refused, ONE, {}),
    "another column": (UsageError, {"valu": [b""]}, {"single_replica": True}),
    "no bytes": (UsageError, {"value": [1]}, {"single_replica": True}),
    "no headers": (UsageError, {"headers": [b""]}, {"single_replica": True}),
    "no time": (UsageError, {"timestamp": [1.5]}, {"single_replica": True}),
    "before none": (BadInput, {"timestamp": [1, -2]}, {"single_replica": True}),
    "in the future": (BadInput, {"timestamp": [2**60]}, {"single_replica": True}),
    "too large": (BadInput, {"value": [bytes(2_000_000)]}, {"single_replica": True}),
    "no key": (BadInput, ONE, {"single_replica": True, "config": {"cleanup.policy": "compact"}}),
    "another codec": (UsageError, ONE, {"single_replica": True, "codec": "zip"}),
    "another level": (UsageError, ONE, {"single_replica": True, "codec": "gzip", "compression_level": 99}),
    "a transaction of nobody": (UsageError, ONE, {"single_replica": True, "transaction": "commit"}),
    "another ending": (UsageError, ONE, {"single_replica": True, "producer_id": 1, "transaction": "end"}),
    "no epoch of a producer": (UsageError, ONE, {"single_replica": True, "producer_id": 1, "producer_epoch": 2**15}),
    "another setting": (UsageError, ONE, {"single_replica": True, "config": {"no.such": 1}}),
    "an error of the data": (ZeroDivisionError, raising, {"single_replica": True}),
}


@pytest.mark.parametrize("name", BAD)
def test_append_of_wrong_data_raises_and_changes_nothing(root, name):
    before, (error, data, options) = tree(root), BAD[name]
    with pytest.raises(error):
        kl.open_partition(root / "idem-0").append(data() if callable(data) else pa.table(data), **options)
    assert tree(root) == before
    assert not list((root / "idem-0").glob(".kafkalog/*/manifest.json"))


def test_append_refuses_a_clock_that_is_before_the_files(root):
    os.utime(next((root / "idem-0").glob("*.log")), (2**33, 2**33))
    before = tree(root)
    with pytest.raises(Refused, match="now"):
        kl.open_partition(root / "idem-0").append(pa.table(ONE), single_replica=True)
    assert tree(root) == before


def test_append_refuses_a_null_key_of_a_header(root):
    data = pa.table(
        {
            "headers": pa.array(
                [[{"key": None, "value": b""}]], pa.list_(pa.struct({"key": pa.binary(), "value": pa.binary()}))
            )
        }
    )
    with pytest.raises(BadInput, match="key is null"):
        kl.open_partition(root / "idem-0").append(data, single_replica=True)


def test_append_beside_a_broker_raises_locked(root):
    code = "import fcntl,sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); print('', flush=True); sys.stdin.read()"
    (root / ".lock").touch()
    with subprocess.Popen(
        [sys.executable, "-c", code, root / ".lock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdout.readline()
        before = tree(root)
        with pytest.raises(Locked):
            kl.open_partition(root / "idem-0").append(pa.table(ONE), single_replica=True)
        assert tree(root) == before
        child.stdin.close()
    kl.open_partition(root / "idem-0").append(pa.table(ONE), single_replica=True)


def no_disk():
    yield pa.RecordBatch.from_pydict({"value": [b"x"]})
    raise FileNotFoundError(2, "the program's own", "input")


def test_an_error_of_the_system_in_the_data_is_raised_as_it_is(root):
    before = tree(root)
    with pytest.raises(FileNotFoundError, match="the program's own"):
        kl.open_partition(root / "idem-0").append(no_disk(), single_replica=True)
    assert tree(root) == before


def test_an_append_waits_for_another_and_goes_behind_it(root):
    """It opens and plans only once it has the lock."""
    one, other = (kl.open_partition(root / "idem-0") for _ in range(2))
    found = []
    options = {"single_replica": True, "wait_seconds": 600, "now": time.time_ns() // 1_000_000 + 600_000}
    waiting = threading.Thread(target=lambda: found.append(other.append(pa.table(ONE), **options)))

    def data():
        yield pa.RecordBatch.from_pydict(ONE)
        waiting.start()
        waiting.join(1)
        assert waiting.is_alive()

    first = one.append(data(), single_replica=True)
    waiting.join()
    assert [done.first_offset for done in found] == [first.end_offset]

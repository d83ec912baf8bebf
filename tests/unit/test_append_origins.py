"""Arrow columns whose offsets are kept: the batches do not depend on the parts; what a follower would not take."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.naive_reader import read_batches, read_records
from tests.support.strategies import contents, headers

pa = pytest.importorskip("pyarrow")

from kafkalog_cli.log.settings.topic_config import resolve  # noqa: E402
from kafkalog_cli.ops.change.append import arrow  # noqa: E402
from kafkalog_cli.ops.change.append.arrow import ArrowReader  # noqa: E402
from kafkalog_cli.ops.change.append.batching import BatchMaker, BatchStyle, blocks  # noqa: E402
from kafkalog_cli.ops.change.append.checks import Checks  # noqa: E402
from kafkalog_cli.ops.change.append.records import UNKNOWN  # noqa: E402
from tests.support.product import BadInput  # noqa: E402

STYLE = BatchStyle(batch_bytes=300, keeps_offsets=True, keeps_epochs=True, keeps_codecs=True)
MOST_DELTA = (1 << 31) - 1
HEADER = pa.struct([pa.field("key", pa.binary()), pa.field("value", pa.binary())])
SCHEMA = pa.schema(
    {
        "offset": pa.int64(), "timestamp": pa.int64(), "key": pa.binary(), "value": pa.binary(),
        "headers": pa.list_(HEADER), "timestampType": pa.int8(), "leader_epoch": pa.int32(), "codec": pa.string(),
    }
)  # fmt: skip
CODECS = ("none", "gzip", "snappy", "lz4", "zstd", None)
ROWS = st.lists(
    st.tuples(
        st.sampled_from([1, 1, 1, 2, 9, (1 << 31) - 1, 1 << 31, 1 << 40]),
        st.sampled_from([5, 5, 6]) | st.integers(-1, 1 << 40),
        contents, contents, headers, st.sampled_from([0, 0, 0, 1]), st.sampled_from([0, 0, 0, 0, 1]),
        st.sampled_from([0, 0, 0, 0, 1, 2, 3, 4, 5]),
    ),
    min_size=1, max_size=40,
)  # fmt: skip


def part_of(rows):
    found, offset, epoch = [], -1, 0
    for gap, timestamp, key, value, pairs, kind, later, codec in rows:
        offset, epoch = offset + gap, epoch + later
        named = [{"key": name, "value": one} for name, one in pairs]
        found.append((offset, timestamp, key, value, named, kind, epoch, CODECS[codec]))
    columns = zip(*found, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(list(column), field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def encoded(parts):
    """Headers and bytes of the batches."""
    arriving = (records for part in parts for records in ArrowReader(0, with_origin=True).records([part]))
    checks = Checks(resolve("t", {}), STYLE, 0, 0)
    maker, found = BatchMaker(STYLE), []
    for block in blocks(checks.records(arriving), STYLE):
        made = maker.encode(block, 99)
        for batch in made.batches.rows():
            begin = batch.position - made.batches.row(0).position
            found.append(bytes(made.data[begin : begin + batch.size_bytes]))
    return found


@given(ROWS, st.integers(0, 40))
@settings(deadline=None, suppress_health_check=list(HealthCheck))
def test_the_batches_do_not_depend_on_the_parts(rows, cut):
    part = part_of(rows)
    offsets = part.column("offset").to_pylist()
    wanted = encoded([part])
    variants = [encoded([part.slice(0, cut), part.slice(cut)])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrow, "_SLICE_ROWS", 3)
        variants.append(encoded([part]))
    for found in variants:
        assert found == wanted
        data = b"".join(found)
        assert [one.offset for batch in read_batches(data) for one in read_records(data, batch)] == offsets


@pytest.mark.parametrize("cut", [0, 1])
@pytest.mark.parametrize(
    ("offsets", "epochs", "message"),
    [
        ([3, 3], [0, 0], "record 2: offset 3 is too low: the log already ends at 4"),
        ([3, 4, 2], [0, 0, 0], "record 3: offset 2 is too low: the log already ends at 5"),
        ([3, None], [0, 0], "record 2: "),
        ([3, 4], [2, 1], "record 2: leader epoch 1 comes after 2"),
    ],
)
def test_append_with_kept_offsets_refuses_offsets_and_epochs_that_do_not_ascend(offsets, epochs, message, cut):
    """Also where the record before came in another part."""
    part = pa.RecordBatch.from_pydict({"key": [b"k"] * len(offsets), "offset": offsets, "leader_epoch": epochs})
    with pytest.raises(BadInput, match=message):
        encoded([part.slice(0, cut), part.slice(cut)])


def test_a_batch_has_all_offsets_that_an_int32_reaches():
    offsets = [5, 5 + MOST_DELTA, 6 + MOST_DELTA]
    data = b"".join(encoded([pa.RecordBatch.from_pydict({"offset": offsets})]))
    assert [[one.offset for one in read_records(data, batch)] for batch in read_batches(data)] == [
        offsets[:2],
        offsets[2:],
    ]


@pytest.mark.parametrize(("less", "sizes"), [(0, [4]), (1, [2, 2])])
def test_a_part_of_as_many_bytes_as_a_slice_may_have_is_a_slice(less, sizes, monkeypatch):
    part = pa.RecordBatch.from_pydict({"key": [b"key"] * 4})
    monkeypatch.setattr(arrow, "_SLICE_BYTES", part.nbytes - less)
    assert [few.num_rows for few in arrow._small_slices(part)] == sizes


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([1, -1, 1, -2], pa.int64()), "record 6: timestamp -2 is not possible"),
        (pa.array([[], [], [], [{"key": None, "value": b""}]], pa.list_(HEADER)), "records from 3 on: a header's key"),
    ],
)
def test_a_bad_record_of_a_later_part_is_named_by_its_number(column, message):
    name = "timestamp" if pa.types.is_int64(column.type) else "headers"
    parts = [pa.RecordBatch.from_pydict({"key": [b"", b""]}), pa.RecordBatch.from_arrays([column], [name])]
    with pytest.raises(BadInput, match=message):
        list(ArrowReader(0).records(parts))


def test_epoch_0_and_a_null_codec_are_known_origins():
    """They are facts: only what is not there is unknown, and a codec that is null is none."""
    columns = {"leader_epoch": pa.array([0, None], pa.int32()), "codec": pa.array(["none", None], pa.string())}
    (records,) = ArrowReader(0, with_origin=True).records([pa.RecordBatch.from_pydict(columns)])
    assert [*zip(records.columns.leader_epoch, records.columns.codec, strict=True)] == [(0, 0), (UNKNOWN, 0)]
    (records,) = ArrowReader(0, with_origin=True).records([pa.RecordBatch.from_pydict({"key": [b""]})])
    assert list(records.columns.codec) == [UNKNOWN]

"""Random logs there and back: what an independent reader sees of them before is what it sees after.

Many more, and with the real loader and dump-log: `python -m tests.kafka.fuzz_imports`.
"""

from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.spark.exporting import FileFormat, export, pa, pq
from tests.spark.import_cases import Case, Row, differences, make_case, rows_of, run_case
from tests.spark.importing import import_into, new_log_dir, records
from tests.spark.test_import import batches_of
from tests.spark.test_spark_rows import log_dir
from tests.support.effort import DIAL
from tests.support.logs import BASE_TIME_MS, R, batch_v2
from tests.support.product import BadInput, ExitCode
from tests.support.strategies import logs


def test_export_and_import_of_random_logs_keep_their_records(tmp_path):
    """Of every format and codec, 0.7 too; by every format of files."""
    tally, formats, count = Counter(), Counter(), DIAL.part(90)
    for seed in range(count):
        case = make_case(seed)
        outcome = run_case(case, tmp_path / str(seed))
        assert not outcome.different, f"{case}: {outcome.different}"
        tally["refused" if outcome.refused else "alike"] += 1
        tally["records"] += outcome.records
        formats[case.exported["format"]] += 1
        if outcome.refused:
            assert "offset" in outcome.refused or "timestamp" in outcome.refused
    assert tally["alike"] > count * 3 // 4
    assert tally["records"] > 30 * count
    assert min(formats.values()) > count // 6


FORMATS = st.sampled_from(list(FileFormat))


@given(logs(), FORMATS, st.booleans())
@settings(
    max_examples=DIAL.part(60),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
)
def test_export_and_import_of_any_log_keep_its_records(tmp_path_factory, log, file_format, new_offsets):
    folder = tmp_path_factory.mktemp("any")
    exported = {"format": file_format, "codec": file_format.codecs[0]}
    config = {"index.interval.bytes": "4096", "message.timestamp.after.max.ms": str((1 << 63) - 1)}
    imported = {"prove": True, "new_offsets": new_offsets}
    case = Case(0, {0: {f"{log.base_offset:020d}.log": log.data}}, exported, imported, config)
    outcome = run_case(case, folder / "x")
    assert not outcome.different


def test_the_comparison_of_round_trips_finds_each_difference():
    row = Row(5, 9, b"k", None, ((b"h", b""),), 2, False)
    assert differences("t-0", [row], [row]) == []
    for field, other in (
        ("offset", 6), ("timestamp", -1), ("key", b""), ("value", b""), ("headers", ((b"h", None),)), ("codec", 0),
        ("is_append_time", True),
    ):  # fmt: skip
        assert field in differences("t-0", [row], [row._replace(**{field: other})])[0]
    assert differences("t-0", [row], [row, row]) == ["t-0: 1 records, 2 wanted"]
    data = batch_v2([R(3, 4, b"a", b"b", ((b"h", None), (b"h", b"")))], 4)
    assert rows_of({"00000000000000000003.log": data}) == [Row(3, 4, b"a", b"b", ((b"h", None), (b"h", b"")), 4, False)]


def test_new_offsets_keep_the_codecs(tmp_path):
    data = batch_v2([R(5, 1, b"a"), R(6, 2, b"b")], 1) + batch_v2([R(9, 3, b"c")], 4) + batch_v2([R(12, 4, b"d")])
    folder = log_dir(tmp_path / "log", data)
    export(folder, tmp_path / "out")
    new = new_log_dir(tmp_path / "new")
    import_into(new, tmp_path / "out", new_offsets=True, prove=True)
    assert batches_of(new / "orders-0") == [(0, 1, 1, 0), (2, 2, 4, 0), (3, 3, 0, 0)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("file_format", list(FileFormat))
@pytest.mark.parametrize("request_", [{"new_offsets": True}, {"partitions": 1}])
def test_import_gives_new_offsets_in_the_order_of_the_old_ones(tmp_path, file_format, request_):
    """Of files by the day too, where a later record may be of an earlier day: what has a key has an order."""
    day_ms = 86_400_000
    rows = [R(i, BASE_TIME_MS - i % 5 * day_ms, b"k", b"%d" % i) for i in range(40)]
    folder = log_dir(tmp_path / "log", b"".join(batch_v2(rows[i : i + 8]) for i in range(0, 40, 8)))
    export(folder, tmp_path / "out", by_day=True, format=file_format, codec=file_format.codecs[0])
    new = new_log_dir(tmp_path / "new")
    import_into(new, tmp_path / "out", **request_)
    assert [int(row["value"]) for row in records(new / "orders-0")] == list(range(40))


def test_offsets_that_some_rows_have_are_no_order(tmp_path):
    table = pa.table({"value": ["a", "b", "c"], "offset": pa.array([9, None, 1])})
    pq.write_table(table, tmp_path / "x.parquet")
    new = new_log_dir(tmp_path / "new")
    import_into(new, tmp_path / "x.parquet", topic="t", partitions=1)
    assert [row["value"] for row in records(new / "t-0")] == [b"a", b"b", b"c"]


def test_files_that_overlap_and_do_not_ascend(tmp_path):
    """They cannot be merged."""
    for name, offsets in (("a", [5, 1]), ("b", [3, 4])):
        table = pa.table({"value": ["x", "y"], "offset": offsets})
        table = table.replace_schema_metadata({"kafkalog.topic": "t", "kafkalog.partition": "0"})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    new = new_log_dir(tmp_path / "new")
    with pytest.raises(
        BadInput, match=r"a.parquet: its offsets do not ascend, .*: sort it by the column offset"
    ) as caught:
        import_into(new, tmp_path / "a.parquet", tmp_path / "b.parquet")
    assert caught.value.exit_code is ExitCode.FAILURE

"""Where exported files lie: the day of a record and the escaped name of a topic."""

import pytest

np = pytest.importorskip("numpy")

from kafkalog_cli.ops.move.export_files import NO_DAY, by_day, escaped  # noqa: E402


def test_the_day_of_any_timestamp_is_that_of_utc():
    edges = [-62_167_219_200_000, -62_167_219_200_001, 253_402_300_799_999, 253_402_300_800_000, -1, -2, 0]
    found = dict(by_day(np.array(edges)))
    assert {day: kept.tolist() for day, kept in found.items()} == {
        "0000-01-01": [0], "9999-12-31": [2], NO_DAY: [1, 3, 4], "1969-12-31": [5], "1970-01-01": [6],
    }  # fmt: skip
    assert by_day(np.array([3, 4])) == [("1970-01-01", None)]


def test_topic_names_are_escaped_in_export_paths():
    assert escaped("a.b_c-D9") == "a.b_c-D9"
    assert escaped("a b/\u00e4\udcff=") == "a%20b%2F%C3%A4%FF%3D"

"""Texts and numbers that are times, as options of commands and of the data source of Spark take them."""

import json
from datetime import datetime

import pytest

from kafkalog_cli.ops.option_values import parse_time_ms
from kafkalog_cli.ops.scans.options import read_options
from tests.support.product import UsageError

NOON_MS = 1_795_694_400_000
"""2026-11-26T12:00:00Z"""
HOUR_MS = 3_600_000
DAY = (
    "20261126", "2026-11-26", "20261126T00", "20261126T0000Z", "20261126T000000", "2026-11-26T00:00:00Z",
    "20261126T010000+0100", "20261126T010000.000+01:00", " 20261126 ", "2026-11-26 00:00:00",
)  # fmt: skip


@pytest.mark.parametrize("text", DAY)
def test_a_day_in_any_form_of_iso_8601_is_its_midnight(text):
    assert parse_time_ms(text, 0) == NOON_MS - 12 * HOUR_MS


@pytest.mark.parametrize("digits", ["18991231", "22001231", "2026112", "202611260", "202613", "0", "1500"])
def test_digits_that_are_no_date_are_milliseconds(digits):
    assert parse_time_ms(digits, 0) == int(digits)


@pytest.mark.parametrize("digits", ["20261301", "20260230", "20261132", "20260000"])
def test_eight_digits_with_a_year_and_a_wrong_month_or_day_are_not_taken_as_milliseconds(digits):
    with pytest.raises(UsageError, match="is not a time"):
        parse_time_ms(digits, 0)


@pytest.mark.parametrize("text", ["2026-11-26T12:00Z", "20261126T12", str(datetime(2026, 11, 26, 12))])
def test_options_of_spark_take_dates(text):
    found = read_options({"path": "x", "since": text, "startingTimestamp": text, "endingTimestamp": "20261127"})
    assert (found.records.since_ms, found.starting.time_ms) == (NOON_MS, NOON_MS)
    assert found.ending.time_ms == NOON_MS + 12 * HOUR_MS


@pytest.mark.parametrize(("number", "unit"), [(NOON_MS // 1000, "in seconds"), (NOON_MS * 1000, "in microseconds")])
def test_options_of_spark_refuse_another_unit_with_the_milliseconds_that_may_be_meant(number, unit):
    of_partition = json.dumps({"orders": {"0": number}})
    for option, text in (
        ("since", number), ("until", number), ("startingTimestamp", number), ("endingTimestamp", number),
        ("startingOffsetsByTimestamp", of_partition), ("endingOffsetsByTimestamp", of_partition),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=f"{option}: .*{unit}.*write {NOON_MS}"):
            read_options({"path": "x", option: str(text)})

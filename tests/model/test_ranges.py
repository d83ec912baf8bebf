"""Ranges of dump-log against a filter over the whole dump, with sound and lying indexes."""

import io
import random

import pytest

from tests.conformance.specification import write_log
from tests.model.test_lookup import random_partition, spoil
from tests.support.commands import json_of, kafkalog
from tests.support.product import Environment, run


def records(folder, *options):
    code, lines, messages = json_of("dump-log", folder, *options)
    assert lines[-1]["type"] == "summary"
    assert (code, messages) == (0, [])
    return [line for line in lines if line["type"] == "record"]


def check(tmp_path, seed):
    folder = tmp_path / "t-0"
    random_partition(folder, seed)
    if seed % 2:
        spoil(folder, seed)
    whole = records(folder)
    chance = random.Random(seed)
    first, last = whole[0]["offset"], whole[-1]["offset"]
    times = sorted(r["timestamp_ms"] for r in whole)
    for _ in range(8):
        low, high = sorted(chance.randrange(first - 2, last + 4) for _ in range(2))
        shown = records(folder, "--from-offset", str(low), "--to-offset", str(high))
        assert shown == [r for r in whole if low <= r["offset"] < high]
        since, until = sorted(chance.choice(times) + chance.randrange(-1, 2) for _ in range(2))
        shown = records(folder, "--since", str(since), "--until", str(until))
        assert shown == [r for r in whole if since <= r["timestamp_ms"] < until]
        key = f"k{chance.randrange(10)}"
        shown = records(folder, "--key", key, "--from-offset", str(low), "--max-records", "3")
        assert shown == [r for r in whole if r["offset"] >= low and r["key"]["data"] == key][:3]


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(20))
def test_ranges_are_what_a_filter_over_the_whole_dump_leaves(tmp_path, seed):
    check(tmp_path, seed)


def test_batches_are_shown_if_they_overlap(tmp_path):
    folder = tmp_path / "t-0"
    random_partition(folder, 3)
    stdout = io.BytesIO()
    whole = records(folder)
    middle = whole[len(whole) // 2]["offset"]
    argv = ["dump-log", str(folder), "--from-offset", str(middle), "--to-offset", str(middle + 1)]
    assert run(argv, Environment(stdout=stdout)) == 0
    lines = [line for line in stdout.getvalue().decode().splitlines() if "position: " in line]
    assert len(lines) == 1


@pytest.mark.parametrize("most", [33_000, 33_001])
def test_dump_log_with_a_limit_reports_no_gap_behind_the_limit(tmp_path, most):
    """A block has 32,768 records at most; behind the limit there is another."""
    write_log({"segments": ["0: 0-32999@T 33005@T"]}, tmp_path / "logs")
    _, _, err = kafkalog("dump-log", tmp_path / "logs" / "t-0", "--deep-iteration", "--max-records", most)
    assert ("32999 is followed by 33005" in err) == (most > 33_000)

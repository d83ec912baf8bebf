"""`read` on sampled damage: it always ends with an answer, and no record of an undamaged batch goes missing untold."""

from __future__ import annotations

import json
import random

import pytest

from kafkalog_cli.errors import ExitCode
from tests.bad_input.log_directory import Done, run_command
from tests.bad_input.makers import LOGS, SmallLog
from tests.support.faulty_fs import FaultyFilesystem

SAMPLE = 30
OPTIONS = (("--format", "json"), ("--format", "json", "--isolation", "read_committed"))


def read(log: SmallLog, data: bytes, *options: str) -> Done:
    return run_command(["read", "/t-0", *options], FaultyFilesystem({f"/t-0/{log.file_name}": data}))


def records(done: Done) -> list[str]:
    """Key, value and headers of each record."""
    found = [json.loads(line) for line in done.out.splitlines()]
    return [json.dumps([one["key"], one["value"], one["headers"]]) for one in found if one["type"] == "record"]


def sampled_bits(log: SmallLog) -> list[int]:
    """Half of the bits in headers, half anywhere."""
    rng = random.Random(log.name)
    starts = [start for start in log.starts[:-1] if start + 30 < len(log.data)]
    headers = [8 * (rng.choice(starts) + rng.randrange(26)) + rng.randrange(8) for _ in range(SAMPLE // 2)]
    return headers + [rng.randrange(8 * len(log.data)) for _ in range(SAMPLE - len(headers))]


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.name)
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: options[-1])
def test_what_is_left_out_is_told(log: SmallLog, options: tuple[str, ...]) -> None:
    whole = records(read(log, log.data, *options))
    told = 0
    for bit in sampled_bits(log):
        done = read(log, log.flipped(bit), *options)
        assert done.code in (ExitCode.OK, ExitCode.FAILURE, ExitCode.WARNINGS, ExitCode.CORRUPTION), bit
        if done.code == ExitCode.OK and "open-transaction" not in done.errors:
            # What no checksum covers may be another: offsets, a message's own place, a leader epoch.
            assert len(records(done)) == len(whole), bit
        else:
            assert done.errors, bit
            told += 1
    assert told > SAMPLE // 4


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.name)
def test_a_log_that_was_cut_off(log: SmallLog) -> None:
    """Every batch before the cut is shown."""
    by_entry = [records(read(log, log.data[:end], "--format", "json")) for end in log.starts]
    rng = random.Random(log.name)
    for size in rng.sample(range(len(log.data)), min(SAMPLE, len(log.data))):
        done = read(log, log.data[:size], "--format", "json")
        assert records(done) == by_entry[log.entry_of(size)], size
        assert (done.code == ExitCode.OK) == (size in log.starts), size

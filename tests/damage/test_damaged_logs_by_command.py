"""dump-log on sampled damage: product.md's exit codes, the undamaged part of the output, everything that --resync can save."""

from __future__ import annotations

import json
import random

import pytest

from tests.damage.log_directory import Done, run_command
from tests.damage.makers import LOGS, SmallLog
from tests.damage.reading import read
from tests.support.faulty_fs import FaultyFilesystem
from tests.support.product import ExitCode

MODES = ((), ("--deep-iteration",), ("--print-data-log",), ("--print-data-log", "--skip-record-metadata"))
SAMPLE = 14

ids = {"ids": lambda log: log.name}


def dump(log: SmallLog, data: bytes, *options: str) -> Done:
    fs = FaultyFilesystem({f"/t-0/{log.file_name}": data})
    return run_command(["dump-log", *options, "--files", f"/t-0/{log.file_name}"], fs)


def sampled_bits(log: SmallLog, seed: int) -> list[int]:
    """Half of the bits in headers, half anywhere; of every entry some."""
    rng = random.Random(f"{log.name} {seed}")
    starts = [start for start in log.starts[:-1] if start + 30 < len(log.data)]
    headers = [8 * (rng.choice(starts) + rng.randrange(26)) + rng.randrange(8) for _ in range(SAMPLE // 2)]
    return headers + [rng.randrange(8 * len(log.data)) for _ in range(SAMPLE - len(headers))]


def outputs_by_entry(log: SmallLog, *options: str) -> list[str]:
    """What a dump prints up to each entry: a file that ends there prints just so much."""
    tail = "tail of the log"
    return [dump(log, log.data[:end], *options).out.partition(tail)[0] for end in log.starts]


@pytest.mark.exhaustive
@pytest.mark.parametrize("log", LOGS, **ids)
@pytest.mark.parametrize("options", MODES, ids=" ".join)
def test_output_up_to_the_damage_is_that_of_the_whole_file(log, options):
    whole = outputs_by_entry(log, *options)
    assert all(longer.startswith(shorter) for shorter, longer in zip(whole, whole[1:], strict=False))
    for bit in sampled_bits(log, len(options)):
        done = dump(log, log.flipped(bit), *options)
        assert done.out.startswith(whole[log.entry_of(bit >> 3)]), bit
        assert done.code == (ExitCode.FAILURE if "kafkalog: " in done.errors else ExitCode.OK), bit
        position = log.starts[log.entry_of(bit >> 3)]
        if done.code:
            said = int(done.errors.partition("at byte ")[2].partition(":")[0])
            assert position <= said <= len(log.data), bit


@pytest.mark.parametrize("log", LOGS, **ids)
def test_strict_tells_a_damaged_tail_from_corruption(log):
    for bit in sampled_bits(log, 7):
        data = log.flipped(bit)
        last = log.entry_of(bit >> 3) == len(log.entries) - 1
        expected = (
            ExitCode.OK if read(data, seven=log.is_v07).is_clean else ExitCode.WARNINGS if last else ExitCode.CORRUPTION
        )
        assert dump(log, data, "--deep-iteration", "--strict").code == expected, bit
    for cut in range(1, len(log.data), 97):
        expected = ExitCode.OK if cut in log.starts else ExitCode.WARNINGS
        assert dump(log, log.data[:cut], "--strict").code == expected, cut


@pytest.mark.parametrize("log", LOGS, **ids)
def test_damage_in_a_segment_that_is_not_the_last_is_corruption(log):
    later = f"/t-0/{10_000:020d}{log.suffix}"
    fs = FaultyFilesystem({f"/t-0/{log.file_name}": log.data[:-1], later: log.data})
    path = f"/t-0/{log.file_name}"
    assert run_command(["dump-log", "--strict", "--files", path], fs).code == ExitCode.CORRUPTION
    del fs.files[later]
    assert run_command(["dump-log", "--strict", "--files", path], fs).code == ExitCode.WARNINGS


@pytest.mark.parametrize("log", LOGS, **ids)
def test_max_bytes_is_no_damage(log):
    for most in (1, log.starts[2] - 1, log.starts[2], log.starts[2] + 1):
        done = dump(log, log.data, "--strict", "--max-bytes", str(most), "--resync")
        assert (done.code, done.errors) == (0, ""), most


def split_lines(done: Done, lines: list[str]) -> tuple[list[str], list[str]]:
    """The lines of batches that are among `lines`, and those that are not."""
    printed = [line for line in done.out.splitlines(keepends=True) if line.startswith(("offset:", "baseOffset:"))]
    return [line for line in printed if line in lines], [line for line in printed if line not in lines]


def printed_valid(log: SmallLog, bit: int) -> bool:
    """Whether the entry with the flipped bit still has a good CRC."""
    position = log.starts[log.entry_of(bit >> 3)]
    return any(batch.position == position and batch.valid for batch in read(log.flipped(bit), seven=log.is_v07).batches)


@pytest.mark.parametrize("log", LOGS, **ids)
def test_resync_prints_every_entry_but_the_damaged_one(log):
    whole = outputs_by_entry(log)
    lines = [after.removeprefix(before) for before, after in zip(whole, whole[1:], strict=False)]
    for bit in sampled_bits(log, 9):
        damaged = log.entry_of(bit >> 3)
        done = dump(log, log.flipped(bit), "--resync")
        printed, others = split_lines(done, lines)
        assert printed == [line for entry, line in enumerate(lines) if entry != damaged], bit
        # Of what lies inside the damaged entry nothing is taken for an entry of the log.
        assert sum("isvalid: true" in line for line in others) <= (1 if printed_valid(log, bit) else 0), bit


@pytest.mark.parametrize("log", LOGS, **ids)
def test_zeroed_headers_are_passed_over(log):
    data = bytearray(log.data)
    for entry in (1, 3):
        data[log.starts[entry] : log.starts[entry] + 17] = bytes(17)
    whole = outputs_by_entry(log)
    lines = [after.removeprefix(before) for before, after in zip(whole, whole[1:], strict=False)]
    done = dump(log, bytes(data), "--resync", "--strict")
    assert done.code == ExitCode.CORRUPTION
    printed, others = split_lines(done, lines)
    assert printed == [line for entry, line in enumerate(lines) if entry not in (1, 3)]
    assert done.errors.count("skipped ") == 2
    # 0.7 has no offsets to tell them by: a set that did not compress and has lost its header shows its messages.
    assert others == [] or log.name == "seven-snappy"


@pytest.mark.parametrize("log", LOGS, **ids)
def test_machine_output_is_whole_objects_with_a_summary(log):
    for bit in sampled_bits(log, 5)[:6]:
        done = dump(log, log.flipped(bit), "--print-data-log", "--format", "json")
        objects = [json.loads(line) for line in done.out.splitlines()]
        assert (objects[-1]["type"], objects[-1]["exit_code"]) == ("summary", done.code)
        assert all(json.loads(line)["type"] == "error" for line in done.errors.splitlines())

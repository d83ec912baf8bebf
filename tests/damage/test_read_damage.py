"""`read` on sampled damage: it always ends with an answer, and no record of an undamaged batch goes missing untold."""

from __future__ import annotations

import json
import random

import pytest

from tests.damage.log_directory import Done, run_command
from tests.damage.makers import GZIP, LOGS, PACK, SmallLog, batch, message, record
from tests.support.faulty_fs import FaultyFilesystem
from tests.support.product import ExitCode

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


@pytest.mark.exhaustive
@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.name)
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: options[-1])
def test_read_reports_damage_wherever_it_leaves_records_out(log: SmallLog, options: tuple[str, ...]) -> None:
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


@pytest.mark.exhaustive
@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.name)
def test_read_of_a_log_that_was_cut_off_prints_the_whole_batches(log: SmallLog) -> None:
    """Every batch before the cut is shown."""
    by_entry = [records(read(log, log.data[:end], "--format", "json")) for end in log.starts]
    rng = random.Random(log.name)
    for size in rng.sample(range(len(log.data)), min(SAMPLE, len(log.data))):
        done = read(log, log.data[:size], "--format", "json")
        assert records(done) == by_entry[log.entry_of(size)], size
        assert (done.code == ExitCode.OK) == (size in log.starts), size


@pytest.mark.parametrize("last", [False, True], ids=["in the middle", "at the end"])
def test_read_reports_a_batch_of_a_magic_that_clients_refuse(*, last: bool) -> None:
    """A batch of magic 7 with a right CRC: a broker takes it, and a client says `Invalid magic found in record: 7`."""
    entries = [batch(at, [record(0, b"k", b"value %d" % at)], magic=7 if at else 2) for at in (0, 1)]
    entries += [] if last else [batch(2, [record(0, b"k", b"value 2")])]
    fs = FaultyFilesystem({f"/t-0/{0:020}.log": b"".join(entries)})
    code = ExitCode.WARNINGS if last else ExitCode.CORRUPTION
    for command, wanted in (
        (["read", "/t-0"], code),
        (["find", "/t-0", "--key", "k"], code),
        (["stats", "/t-0"], code),
    ):
        done = run_command(command, fs)
        assert done.code == wanted, command
        assert f"at byte {len(entries[0])}" in done.errors, command
        assert "clients refuse its magic 7: the records of offsets 1 to 1 are" in done.errors, command
        assert "value 1" not in done.out, command
    shown = run_command(["dump-log", "/t-0", "--print-data-log"], fs)
    assert shown.code == ExitCode.OK
    assert "value 1" in shown.out


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("cut", [1, 9, 30])
def test_a_message_set_that_ends_in_a_message(magic: int, cut: int) -> None:
    """A consumer skips an incomplete inner message without an error: so does `read`, with a warning."""
    inner = b"".join(message(at, None, b"value %d" % at, magic=magic) for at in range(3))
    outer = message(2, None, PACK[GZIP](inner[:-cut]), magic=magic, attributes=GZIP)
    fs = FaultyFilesystem({f"/t-0/{0:020}.log": outer})
    done = run_command(["read", "/t-0"], fs)
    assert (done.code, done.out) == (ExitCode.OK, "value 0\nvalue 1\n")
    assert "1 compressed message set ends with an incomplete message, the first at byte 0." in done.errors
    whole = message(2, None, PACK[GZIP](inner), magic=magic, attributes=GZIP)
    assert not run_command(["read", "/t-0"], FaultyFilesystem({f"/t-0/{0:020}.log": whole})).errors

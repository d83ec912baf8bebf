"""Every truncation, zeros from every byte on, zeroed headers: a torn tail or damage in mid-log, by brute force."""

from __future__ import annotations

import struct
import zlib

import pytest
from crc32c import crc32c

from tests.damage.makers import LOGS, SmallLog
from tests.damage.reading import deadline
from tests.damage.verifying import Finding, beside, verified
from tests.support.effort import DIAL
from tests.support.naive_reader import read_batches
from tests.support.product import ExitCode

ids = {"ids": lambda log: log.name}
SINCE_EIGHT = [log for log in LOGS if not log.is_v07]
TAIL = {"torn-tail", "zero-tail", "bad-tail-batch"}
DAMAGE = {*TAIL, "damaged-range", "zeroed-range", "crc-mismatch", "unknown-magic",
          "offsets-not-ascending"}  # fmt: skip
ALL_BYTES = ("v2-none", "v1-gzip")
"""Logs that every run tries at every byte; the slow run does it with all."""
EXIT_CODES = {"info": ExitCode.OK, "warning": ExitCode.WARNINGS, "corruption": ExitCode.CORRUPTION}
HEADER_BYTES = 17
"""Up to the magic."""


def entry_at(data: bytes, at: int) -> int | None:
    """Where an entry with a good CRC ends that starts at `at`; None if none does."""
    if at + HEADER_BYTES > len(data):
        return None
    size, magic = struct.unpack_from(">i4xb", data, at + 8)
    end = at + 12 + size
    if magic == 2 and size >= 49 and end <= len(data):
        stored = struct.unpack_from(">I", data, at + 17)[0]
        return end if crc32c(data[at + 21 : end]) == stored else None
    if magic in (0, 1) and size >= (14, 22)[magic] and end <= len(data):
        stored = struct.unpack_from(">I", data, at + 12)[0]
        return end if zlib.crc32(data[at + 16 : end]) == stored else None
    return None


def brute_force(log: SmallLog, data: bytes) -> ExitCode:
    """OK if all of it are good entries, WARNINGS if no good entry starts behind the first bad byte, else CORRUPTION.

    What a torn compressed set holds are no entries of the log, though they may be plain to see, as long as its offset
    and size stand.
    """
    at = 0
    while at < len(data):
        end = entry_at(data, at)
        if end is None:
            knows_header = data[at : at + 12] == log.data[at : at + 12]
            starts = log.starts if knows_header else range(at + 1, len(data))
            behind = any(start > at and entry_at(data, start) for start in starts)
            return ExitCode.CORRUPTION if behind else ExitCode.WARNINGS
        at = end
    return ExitCode.OK


def damage_of(findings: tuple[Finding, ...]) -> list[Finding]:
    return [found for found in findings if found.kind in DAMAGE]


def code_of(findings: list[Finding]) -> ExitCode:
    return max((EXIT_CODES[found.severity] for found in findings), default=ExitCode.OK)


def agree(log: SmallLog, data: bytes, level: str = "normal") -> ExitCode:
    """Verify `data` beside the files of the whole log, compare with the brute force, and say what it came to."""
    expected = brute_force(log, data)
    found = damage_of(verified({**beside(log), log.file_name: data}, level))
    assert code_of(found) == expected, found
    assert all((one.kind in TAIL) == (expected is ExitCode.WARNINGS) for one in found), found
    return expected


def truncations(log: SmallLog, step: int) -> None:
    for cut in DIAL.some(sorted({*range(0, len(log.data), step), *log.starts})):
        assert agree(log, log.data[:cut]) is (ExitCode.OK if cut in log.starts else ExitCode.WARNINGS), cut


def zeros(log: SmallLog, step: int) -> None:
    for cut in DIAL.some(range(0, len(log.data), step)):
        data = log.data[:cut] + bytes(len(log.data) - cut)
        assert agree(log, data) is (ExitCode.OK if data == log.data else ExitCode.WARNINGS), cut


def windows(log: SmallLog, step: int) -> None:
    for start in DIAL.some(range(0, len(log.data), step)):
        end = min(start + 16, log.starts[log.entry_of(start) + 1])
        agree(log, log.data[:start] + bytes(end - start) + log.data[end:])


@pytest.mark.exhaustive
@pytest.mark.parametrize("log", SINCE_EIGHT, **ids)
def test_verify_finds_a_log_cut_at_sampled_bytes(log):
    truncations(log, 1 if log.name in ALL_BYTES else 9)


@pytest.mark.full
@pytest.mark.parametrize("log", SINCE_EIGHT, **ids)
def test_verify_finds_zeros_from_sampled_bytes_to_the_end(log):
    zeros(log, 1 if log.name in ALL_BYTES else 9)


@pytest.mark.exhaustive
@pytest.mark.parametrize("log", SINCE_EIGHT, **ids)
def test_verify_finds_zeroed_windows_within_a_log(log):
    windows(log, 3 if log.name in ALL_BYTES else 17)


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("log", SINCE_EIGHT, **ids)
def test_verify_finds_a_log_cut_or_zeroed_at_every_byte(log):
    with deadline(300):
        truncations(log, 1)
        zeros(log, 1)
        windows(log, 1)


@pytest.mark.exhaustive
@pytest.mark.parametrize("log", SINCE_EIGHT, **ids)
def test_verify_reports_a_truncated_log_as_one_torn_tail_from_the_last_good_entry(log):
    for cut in range(1, len(log.data), 29):
        start = max(start for start in log.starts if start <= cut)
        found = damage_of(verified({**beside(log), log.file_name: log.data[:cut]}))
        assert [(one.kind, one.position) for one in found] == ([("torn-tail", start)] if start < cut else [])


@pytest.mark.parametrize("log", SINCE_EIGHT, **ids)
def test_verify_reports_zeros_after_the_last_batch_as_a_tail(log):
    for size in (1, 16, 17, 18, 61, 4096):
        data = log.data + bytes(size)
        found = damage_of(verified({**beside(log), log.file_name: data}))
        # A broker takes up to 17 bytes for a cut off header, and does not start with more of them after a clean stop.
        kind = "torn-tail" if size <= HEADER_BYTES else "zero-tail"
        assert [(one.kind, one.position) for one in found] == [(kind, len(log.data))], size


@pytest.mark.exhaustive
@pytest.mark.parametrize("log", SINCE_EIGHT, **ids)
@pytest.mark.parametrize("size", [HEADER_BYTES, 61])
def test_verify_reports_one_zeroed_header_as_a_zeroed_range(log, size):
    for entry, start in enumerate(log.starts[:-1]):
        end = min(start + size, log.starts[entry + 1])
        data = log.data[:start] + bytes(end - start) + log.data[end:]
        is_tail = agree(log, data) is ExitCode.WARNINGS
        assert is_tail <= (entry == len(log.starts) - 2)
        found = damage_of(verified({**beside(log), log.file_name: data}))[0]
        assert (found.kind, found.position) == ("zero-tail" if is_tail else "zeroed-range", start)


@pytest.mark.exhaustive
@pytest.mark.parametrize("log", SINCE_EIGHT, **ids)
def test_verify_at_level_quick_reports_torn_chains_like_level_normal(log):
    """It looks at no CRC of the chain, so that only what breaks the chain counts."""
    for cut in range(0, len(log.data), 11):
        found = damage_of(verified({log.file_name: log.data[:cut]}, "quick"))
        assert code_of(found) is (ExitCode.OK if cut in log.starts else ExitCode.WARNINGS), cut
    for entry, start in enumerate(log.starts[:-1]):
        data = log.data[:start] + bytes(HEADER_BYTES) + log.data[start + HEADER_BYTES :]
        found = damage_of(verified({log.file_name: data}, "quick"))
        assert code_of(found) is brute_force(log, data), entry


# -- several segments


def two_segments(log: SmallLog, data: bytes) -> dict[str, bytes]:
    """The log cut in two, `data` instead of the first part."""
    second = log.starts[len(log.starts) // 2]
    offset = next(batch for batch in read_batches(log.data) if batch.position == second).base_offset
    name = f"{max(offset, 1):020}.log"
    return {log.file_name: data, name: log.data[second:]}


@pytest.mark.parametrize("log", [log for log in SINCE_EIGHT if log.name in ("v2-none", "v2-zstd", "v0-none", "v1-none")],
                         **ids)  # fmt: skip
def test_no_damage_before_the_last_segment_is_a_tail(log):
    second = log.starts[len(log.starts) // 2]
    first = log.data[:second]
    assert damage_of(verified(two_segments(log, first))) == []
    for cut in range(1, second, 23):
        for data in (first[:cut], first[:cut] + bytes(second - cut)):
            found = damage_of(verified(two_segments(log, data)))
            is_whole = data == first or (len(data) < second and cut in log.starts)
            assert code_of(found) is (ExitCode.OK if is_whole else ExitCode.CORRUPTION), cut


@pytest.mark.exhaustive
@pytest.mark.parametrize("log", [log for log in LOGS if log.is_v07], **ids)
def test_verify_finds_truncations_and_zeros_in_logs_of_07(log):
    """A message without payload is 9 bytes: what is left of one may look like another, so only the class is asked."""
    for cut in sorted({*range(0, len(log.data), 5), *log.starts}):
        found = damage_of(verified({log.file_name: log.data[:cut]}))
        assert code_of(found) is (ExitCode.OK if cut in log.starts else ExitCode.WARNINGS), cut
    for cut in range(0, len(log.data), 5):
        data = log.data[:cut] + bytes(len(log.data) - cut)
        found = verified({log.file_name: data})
        severe = {one.severity for one in found} - {"info"}
        assert (severe != set()) == (data != log.data), cut

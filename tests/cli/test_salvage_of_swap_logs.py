"""A salvage from a damaged `.swap` log reports each record as lost that it did not copy, wherever the damage is."""

import pytest

from tests.support.commands import json_of, kafkalog
from tests.support.logs import R, batch_v2

T = 1_795_000_000_000
DAMAGE = {
    "a wrong CRC": lambda data: data[:20] + bytes([data[20] ^ 1]) + data[21:],
    "zeros": lambda data: bytes(len(data)),
    "a header of zeros": lambda data: bytes(30) + data[30:],
    "noise": lambda data: bytes(at * 7 % 251 + 1 for at in range(len(data))),
    "a wrong length": lambda data: data[:8] + b"\x7f" + data[9:],
    "a base offset above the next segment": lambda data: b"\0\0\0\1" + data[4:],
    "cut short": lambda data: data[:25],
}


def batch(number):
    """Two records, of which the offsets are 2 * number and the next."""
    return batch_v2([R(2 * number + at, T + number, b"k", b"v%d" % at) for at in range(2)])


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("following", [6, 7, 10, None])
@pytest.mark.parametrize("damaged", [(0,), (1,), (2,), (3,), (4,), (0, 1), (1, 2), (2, 3), (1, 3)])
def test_salvage_reports_every_offset_of_a_swap_log_that_it_does_not_copy(tmp_path, kind, following, damaged):
    folder = tmp_path / "t-0"
    folder.mkdir()
    parts = [DAMAGE[kind](batch(at)) if at in damaged else batch(at) for at in range(5)]
    (folder / f"{0:020}.log.swap").write_bytes(b"".join(parts))
    if following is not None:
        (folder / f"{following:020}.log").write_bytes(batch_v2([R(following, T, b"k", b"v")]))
    code, [found, *_], err = json_of("recover", folder, "--salvage", tmp_path / "out")
    assert not err
    _, copied, _ = json_of("read", tmp_path / "out" / "t-0", "--from", "earliest") if found["batches"] else (0, [], [])
    there = {line["offset"] for line in copied if line["type"] == "record"}
    end = 10 if following is None else following
    gone = set(range(end)) - there
    ranges = [(one["first"], one["last"]) for one in found["lost"]]
    for offset in gone:
        assert any(first <= offset and (last is None or offset <= last) for first, last in ranges), (gone, ranges)
    assert code == (4 if gone else 0) or not gone, (code, gone)
    assert kafkalog("recover", folder, "--dry-run").code in (0, 3, 4, 14)

"""No object of machine output has a position in a file or a size below 0, and no finding an offset below 0."""

from __future__ import annotations

import json
import random
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from tests.damage.makers import START_MS
from tests.damage.makers import seven as seven_message
from tests.support.commands import kafkalog
from tests.support.logs import R, aborted_txns, batch_v2, message, message_set, producer_snapshot, write_segment

RECORDS = [R(at, START_MS + at, b"key%d" % at, b"value %d" % at) for at in range(4)]
BEHIND = batch_v2([R(9, START_MS + 9, b"k", b"v")])
LOGS = {
    **{f"set v{magic} codec {codec}": message_set(RECORDS, magic, codec) for magic in (0, 1) for codec in (1, 2, 3)},
    **{f"messages v{magic}": b"".join(message(one, magic) for one in RECORDS) for magic in (0, 1)},
    **{f"batch codec {codec}": batch_v2(RECORDS, codec) for codec in range(5)},
    "transaction": batch_v2(RECORDS, producer=(7, 0, 0), bits=0x10),
}
WORDS = (-(1 << 63), -(1 << 31), -7, -1, 0, 1, 1 << 31, (1 << 63) - 1)
LOG, SEVEN_LOG, INDEX = f"{0:020}.log", f"{0:020}.kafka", f"{0:020}.index"
PLACES = ("position", "size_bytes", "bytes", "batch_position", "file_position", "line", "entry")
SEEDS = 6
"""Damaged logs of each kind."""


def damaged(data: bytes, chance: random.Random) -> bytes:
    """A log with one to three odd fields, most of them with a checksum that fits."""
    out = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        kind = chance.randrange(4)
        at = chance.randrange(len(out) - 8)
        if kind == 0:
            out[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            struct.pack_into(">q", out, chance.choice((0, at)), chance.choice(WORDS))
        elif kind == 2:
            struct.pack_into(
                ">i", out, chance.choice((8, 12, 17, at)), chance.choice(WORDS) % (1 << 31) - chance.randrange(2)
            )
        else:
            del out[chance.randrange(12, len(out)) :]
            out += bytes(8)
    return mended(bytes(out)) if chance.random() < 0.7 else bytes(out)


def mended(data: bytes) -> bytes:
    if len(data) > 61 and data[16] == 2:
        return data[:17] + struct.pack(">I", crc32c(data[21:])) + data[21:]
    return data[:12] + struct.pack(">I", zlib.crc32(data[16:])) + data[16:]


def objects(*argv: object) -> Iterator[dict[str, Any]]:
    _, out, err = kafkalog(*argv)
    text = out + err
    for line in text.splitlines():
        if line.startswith("{"):
            yield json.loads(line)


def negative(found: Any, names: tuple[str, ...], path: str = "") -> Iterator[str]:
    """Which fields of an object, or of those in it, are below 0."""
    if isinstance(found, dict):
        for name, value in found.items():
            if name in names and isinstance(value, int) and value < 0:
                yield f"{path}.{name} {value}"
            yield from negative(value, names, f"{path}.{name}")
    elif isinstance(found, list):
        for value in found:
            yield from negative(value, names, path)


COMMANDS = (
    ("verify", "--level", "quick"),
    ("verify", "--level", "normal"),
    ("verify", "--level", "deep"),
    ("dump-log", "--deep-iteration"),
    ("dump-log", "--resync"),
    ("read",),
    ("recover", "--dry-run"),
    ("ls", "--segments"),
)


def check(folder: Path, label: str) -> int:
    seen = 0
    for command in COMMANDS:
        for found in objects(*command, folder, "--format", "json"):
            seen += 1
            assert not [*negative(found, PLACES)], (label, command, found)
            if found.get("type") in ("finding", "error", "damage", "fault"):
                seen += 1
                assert not [*negative(found, ("first_offset", "last_offset", "offset"))], (label, command, found)
    return seen


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", LOGS)
def test_no_finding_of_a_damaged_log_has_a_negative_offset_or_position(tmp_path: Path, name: str) -> None:
    seen = 0
    for seed in range(SEEDS):
        chance = random.Random(f"{name} {seed}")
        folder = tmp_path / f"t{seed}-0"
        folder.mkdir()
        data = damaged(LOGS[name], chance)
        write_segment(folder, 0, [(data, 3, START_MS + 3), (BEHIND, 9, START_MS + 9)])
        (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 -5\n" if chance.random() < 0.3 else "0\n1\n0 0\n")
        seen += check(folder, f"{name} {seed}")
    assert seen > 10 * SEEDS


def test_no_finding_of_a_damaged_log_of_0_7_has_a_negative_position(tmp_path: Path) -> None:
    good = b"".join(seven_message(b"value %d" % at) for at in range(4))
    for seed in range(SEEDS):
        chance = random.Random(seed)
        folder = tmp_path / f"t{seed}-0"
        folder.mkdir()
        data = bytearray(good)
        struct.pack_into(">i", data, chance.choice((0, 19, 38)), chance.choice((-1, -(1 << 31), 3, 1 << 30)))
        (folder / SEVEN_LOG).write_bytes(data)
        check(folder, f"seven {seed}")


def test_no_finding_of_a_damaged_file_beside_a_log_has_a_negative_offset_or_position(tmp_path: Path) -> None:
    """The entries are as the files have them; what is said of the files has no place below 0."""
    for seed in range(SEEDS * 4):
        chance = random.Random(seed)
        folder = tmp_path / f"t{seed}-0"
        folder.mkdir()
        write_segment(folder, 0, [(batch_v2(RECORDS), 3, START_MS + 3), (BEHIND, 9, START_MS + 9)])
        word = chance.choice(WORDS)
        entry = (word, 0, 3, 3)
        (folder / INDEX).write_bytes(struct.pack(">ii", word % (1 << 31), -7) + b"\0" * chance.randrange(9))
        (folder / INDEX.replace(".index", ".timeindex")).write_bytes(struct.pack(">qi", word, -7))
        (folder / INDEX.replace(".index", ".txnindex")).write_bytes(aborted_txns([entry])[: chance.choice((34, 20))])
        snapshot = producer_snapshot([(word, 0, 0, word, 0, word, 0, -1)])
        (folder / f"{5:020}.snapshot").write_bytes(snapshot[: chance.choice((len(snapshot), 20, 3))])
        (folder / "leader-epoch-checkpoint").write_text(
            chance.choice(("0\n1\n0 -5\n", "0\n1\n-3 0\n", "x", "0\n9\n0 0\n"))
        )
        check(folder, str(seed))
        for found in objects("dump-index", folder, "--format", "json"):
            own = {key: value for key, value in found.items() if key not in ("entries", "fields")}
            if found.get("type") != "entry" and "number" not in found:
                assert not [*negative(own, ("size_bytes", "byte", "at"))], found

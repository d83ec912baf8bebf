"""dump-log of many files at once: the real tools report them in the order of their hash maps."""

import random
import struct

import pytest

from tests.interop.agreement import assert_agree, run_ours
from tests.support.logs import BASE_TIME_MS, R, batch_v2

COUNTS = [2, 3, 7, 10, 11, 12, 13, 22, 23, 24, 25, 47, 48, 49]
"""The maps grow near 12 keys, and again near twice as many."""


def segment_with_faults(chance, at):
    """A log with gaps, an offset index and a time index whose entries do not fit, or fit in part."""
    offsets = sorted(chance.sample(range(60), chance.choice([1, 2, 5])))
    batches = [batch_v2([R(offset, BASE_TIME_MS + offset * 1000, b"k", b"v")]) for offset in offsets]
    log = b"".join(batches)
    entries = [(offset + chance.choice([0, 0, 1]), sum(map(len, batches[:n]))) for n, offset in enumerate(offsets)][1:]
    times = [(BASE_TIME_MS + chance.choice([offset, at]) * 1000, offset) for offset, _ in entries]
    return {
        ".log": log,
        ".index": b"".join(struct.pack(">ii", *entry) for entry in entries),
        ".timeindex": b"".join(struct.pack(">qi", *entry) for entry in times),
    }


def commands_in(folder, chance):
    commands = []
    for count in COUNTS:
        for suffix in (".log", ".index", ".timeindex"):
            paths = []
            for at in range(count):
                home = folder / f"{count}{suffix}" / f"topic-{chance.randrange(10**9)}"
                home.mkdir(parents=True)
                for name, data in segment_with_faults(chance, at).items():
                    (home / f"{0:020d}{name}").write_bytes(data)
                paths.append(str(home / f"{0:020d}{suffix}"))
            commands.append(["--files", ",".join(paths)])
    return commands


@pytest.mark.full
@pytest.mark.parametrize("kafka", ["real_kafka", "newest_kafka"])
@pytest.mark.parametrize("seed", [51, 52])
def test_files_are_reported_in_the_order_of_the_tool(kafka, seed, request, tmp_path):
    real_kafka = request.getfixturevalue(kafka)
    commands = commands_in(tmp_path, random.Random(seed))
    ours = [run_ours(argv, version=real_kafka.version) for argv in commands]
    reports = 0
    for argv, ran, real in zip(commands, ours, real_kafka.dump(commands, tmp_path), strict=True):
        assert_agree(argv, ran, real)
        reports += real.stderr.count(b"/topic-")
    assert reports > 200

"""dump-log against the real kafka-dump-log of today, on logs that these tests make and damage."""

import random

import pytest

from tests.damage.makers import LOG_APPEND_TIME, NONE, PACK, START_MS, ZSTD, batch, record
from tests.kafka.agreement import assert_agree, run_ours
from tests.kafka.random_segments import MALFORMED, damaged, random_log
from tests.support.effort import DIAL
from tests.support.logs import BASE_TIME_MS, R, batch_v2, message, message_set

MODES = [
    [],
    ["--deep-iteration"],
    ["--print-data-log"],
    ["--print-data-log", "--skip-record-metadata"],
    ["--max-bytes", "700", "--deep-iteration"],
]


def compare(real_kafka, folder, logs, modes=MODES):
    commands = []
    for at, log in enumerate(logs):
        (folder / str(at)).mkdir()
        path = folder / str(at) / "00000000000000000000.log"
        path.write_bytes(log)
        commands += [["--files", str(path), *mode] for mode in modes]
    failed = 0
    for argv, real in zip(commands, real_kafka.dump(commands, folder), strict=True):
        assert_agree(argv, run_ours(argv, real_kafka.version), real)
        failed += real.code
    return len(commands), failed


@pytest.mark.full
def test_dump_log_prints_random_logs_like_the_real_tool(real_kafka, tmp_path):
    chance = random.Random(1)
    tried, failed = compare(real_kafka, tmp_path, [random_log(chance) for _ in range(60)])
    assert (tried, failed) == (300, 0)


def test_dump_log_prints_damaged_logs_like_the_real_tool(real_kafka, tmp_path):
    chance, count = random.Random(2), DIAL.part(150)
    logs = [damaged(random_log(chance), chance) for _ in range(count)]
    tried, failed = compare(real_kafka, tmp_path, logs)
    assert tried == len(MODES) * count
    assert failed > tried / 15


@pytest.mark.full
def test_dump_log_prints_malformed_utf_8_like_the_real_tool(real_kafka, tmp_path):
    chance = random.Random(3)
    pieces = [
        bytes(chance.choice(b"a\x80\xbf\xc2\xe0\xe2\xed\xf0\xf4\xa0\x90") for _ in range(chance.randrange(1, 9)))
        for _ in range(300)
    ]
    logs = [
        batch_v2([R(i, BASE_TIME_MS, text, text[::-1], ((text, text),)) for i, text in enumerate(pieces + MALFORMED)]),
        b"".join(message(R(i, BASE_TIME_MS, text, text), 1) for i, text in enumerate(MALFORMED)),
    ]
    assert compare(real_kafka, tmp_path, logs, [["--print-data-log"]]) == (2, 0)


@pytest.mark.full
def test_dump_log_prints_large_batches_like_the_real_tool(real_kafka, tmp_path):
    chance, made, offset = random.Random(4), [], 5
    for at in range(40_000):
        made.append(R(offset, BASE_TIME_MS + at % 5000, b"k%d" % (at % 9) if at % 7 else None, b"%d" % at))
        offset += 1 if chance.random() < 0.9 else 3
    data = b"".join(
        record(r.offset - 5, r.key, r.value, ((b"h", b"x"),) * (at % 50 == 0), ms=at % 5000)
        for at, r in enumerate(made)
    )

    def large(codec, more=0, attributes=0):
        packed = None if codec == NONE else PACK[codec](data)
        return batch(
            5, data, codec=codec, count=len(made) + more, delta=offset - 6, max_ms=START_MS + 4999, attributes=attributes,
            producer=(9, 0, 2**31 - 1000), packed=packed,
        )  # fmt: skip

    first, last = batch(0, [record(0, b"k", b"v")]), batch(offset, [record(0, b"k", b"v")])
    logs = [first + large(codec, attributes=LOG_APPEND_TIME * (codec == 2)) + last for codec in range(5)]
    logs += [message_set(made, magic, 1) + last for magic in (0, 1)]
    # Fewer and more than the header says, at once and behind many: what is printed before differs by codec.
    lies = [first + large(codec, more) + last for codec in (NONE, ZSTD) for more in (-1, 1)]
    assert compare(real_kafka, tmp_path, logs + lies, MODES[1:3]) == (22, 8)

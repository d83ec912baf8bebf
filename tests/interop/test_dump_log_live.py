"""dump-log against the real kafka-dump-log of today, on logs that these tests make and damage."""

import io
import random
import struct

import pytest
from logs import BASE_TIME_MS, R, batch_v2, message, message_set

from kafkalog_cli.cli.app import run
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.storage.kernels import KernelChoice

MODES = [
    [],
    ["--deep-iteration"],
    ["--print-data-log"],
    ["--print-data-log", "--skip-record-metadata"],
    ["--max-bytes", "700", "--deep-iteration"],
]
TEXTS = [b"", b"a", b"plain", "größe".encode(), b"tab\tline\nnext", "\U0001f600".encode(), b"x" * 500, None]
MALFORMED = [
    b"\xff", b"\xc0\x80", b"\xc2", b"\xe2\x82", b"\xed\xa0\x80", b"\xed\xbf\xbf!", b"\xf0\x80\x80\x80", b"\xf4\x90\x80\x80",
    b"\xf5\x80\x80\x80", b"\xf0\x9f\x98", b"\xe0\x80\x80", b"\xe1\x80\xe1\x80", b"\xf0\x90\x80(", b"\xfe\xfe\xff\xff", b"a\x80b",
]  # fmt: skip


def random_log(chance):
    """Bytes of a small log: every magic, codec and attribute, gaps, control batches, empty batches."""
    log, offset = b"", chance.choice([0, 7])
    for _ in range(chance.randrange(1, 9)):
        count = chance.randrange(1, 6)
        texts = TEXTS + chance.sample(MALFORMED, 3)
        made = []
        for _ in range(count):
            headers = tuple(
                (chance.choice([b"h", b"", b"\xff", b"kopf"]), chance.choice(TEXTS))
                for _ in range(chance.choice([0, 0, 0, 2]))
            )
            made.append(
                R(
                    offset,
                    BASE_TIME_MS + chance.randrange(-5, 5000),
                    chance.choice(texts),
                    chance.choice(texts),
                    headers,
                )
            )
            offset += chance.choice([1, 1, 1, 3])
        codec = chance.choice([0, 0, 1, 2, 3, 4])
        magic = chance.choice([2, 2, 2, 2, 1, 0])
        if magic < 2:
            made = [r._replace(offset=made[0].offset + i) for i, r in enumerate(made)]
            if codec in (1, 2) or (codec == 3 and magic == 1):
                log += message_set(made, magic, codec)
            else:
                log += b"".join(message(r, magic) for r in made)
            continue
        bits = chance.choice([0, 0, 8, 0x10, 0x40])
        producer = chance.choice([(-1, -1, -1), (5, 1, 10), (5, 1, 2**31 - 2)])
        kind = chance.randrange(10)
        if kind == 0:
            log += batch_v2([], 0, offset, offset + 3, producer, bits=bits & 0x10)
            offset += 4
        elif kind == 1:
            marker = R(offset, BASE_TIME_MS, struct.pack(">hh", 0, chance.choice([0, 1, 9])), struct.pack(">hi", 0, 4))
            log += batch_v2([marker], 0, producer=(5, 1, -1), bits=0x30)
            offset += 1
        else:
            log += batch_v2(made, codec, producer=producer, bits=bits, last=made[-1].offset + chance.choice([0, 0, 2]))
            offset += 3
    return log


def damaged(log, chance):
    data = bytearray(log)
    for _ in range(chance.choice([1, 1, 2])):
        at, kind = chance.randrange(max(len(data), 1)), chance.randrange(6)
        if kind < 2 and data:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 2:
            del data[at:]
        elif kind == 3:
            data[at : at + 30] = bytes(30)
        elif kind == 4:
            data += chance.randbytes(chance.randrange(1, 60))
        else:
            data[at : at + 4] = chance.choice([b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\x0e", b"\0\0\0\x31"])
    return bytes(data)


def compare(real_kafka, folder, logs, modes=MODES, forced=False):
    commands = []
    for at, log in enumerate(logs):
        (folder / str(at)).mkdir()
        path = folder / str(at) / "00000000000000000000.log"
        path.write_bytes(log)
        commands += [["--files", str(path), *mode] for mode in modes]
    failed = 0
    for argv, (stdout, stderr, code) in zip(commands, real_kafka.dump(commands, folder), strict=True):
        ours_out, ours_err = io.BytesIO(), io.BytesIO()
        environment = Environment(stdout=ours_out, stderr=ours_err, kernels=KernelChoice(forced=forced))
        ours = run(["dump-log", *argv], environment)
        assert (ours, ours_out.getvalue()) == (code, stdout), argv
        if code == 0:
            assert ours_err.getvalue() == stderr, argv
        failed += code
    return len(commands), failed


@pytest.mark.parametrize("forced", [False, True])
def test_well_formed_logs(real_kafka, tmp_path, forced):
    chance = random.Random(1)
    tried, failed = compare(real_kafka, tmp_path, [random_log(chance) for _ in range(60)], forced=forced)
    assert (tried, failed) == (300, 0)


@pytest.mark.parametrize("forced", [False, True])
def test_damaged_logs(real_kafka, tmp_path, forced):
    chance = random.Random(2)
    logs = [damaged(random_log(chance), chance) for _ in range(150)]
    tried, failed = compare(real_kafka, tmp_path, logs, forced=forced)
    assert tried == 750
    assert failed > 50


def test_malformed_utf8_everywhere(real_kafka, tmp_path):
    chance = random.Random(3)
    pieces = [
        bytes(chance.choice(b"a\x80\xbf\xc2\xe0\xe2\xed\xf0\xf4\xa0\x90") for _ in range(chance.randrange(1, 9)))
        for _ in range(300)
    ]
    logs = [
        batch_v2([R(i, BASE_TIME_MS, text, text[::-1], ((text, text),)) for i, text in enumerate(pieces + MALFORMED)]),
        b"".join(message(R(i, BASE_TIME_MS, text, text), 1) for i, text in enumerate(MALFORMED)),
    ]
    for forced in (False, True):
        folder = tmp_path / str(forced)
        folder.mkdir()
        assert compare(real_kafka, folder, logs, [["--print-data-log"]], forced) == (2, 0)

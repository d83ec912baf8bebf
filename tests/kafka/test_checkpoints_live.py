"""Checkpoint files in every malformed way, read by the broker's own classes and by `format.checkpoint`."""

import subprocess
from random import Random

import pytest

from tests.kafka.real_kafka import JAVA
from tests.support.product_kafka import BrokerReading, broker_reading, decode_leader_epochs, decode_offsets

ANSWERS = {
    "read": BrokerReading.ENTRIES,
    "offline": BrokerReading.FAILS,
    "runtime": BrokerReading.THROWS,
    "error": BrokerReading.OUT_OF_MEMORY,
}
ENTRY = {"offsets": "t 0 5", "epochs": "3 5"}
NAMED = [
    b"",
    b"\n",
    b"0",
    b"0\n",
    b"0\n0",
    b"0\n0\n\n",
    b"1\n1\nE\n",
    b"-0\n+1\nE\n",
    b" 0\n1\nE\n",
    b"x\n1\nE\n",
    b"0\n2\nE\n",
    b"0\n0\nE\n",
    b"0\n-1\n",
    b"0\n-1\nE\n",
    b"0\n2147483647\nE\n",
    b"0\n2147483648\nE\n",
    b"0\n1\n",
    b"0\n1\nE\n\n",
    b"0\n1\n E\n",
    b"0\n1\nE \n",
    b"0\n1\nE more\n",
    b"0\n2\nE\nE\n",
    b"0\r\n1\r\nE\r\n",
    b"0\r1\rE",
    b"\xef\xbb\xbf0\n1\nE\n",
    b"0\n1\nt\xff 0 5\n",
    b"0\n2\nx x x\n\xff 0 5\n",
    b"0\n1\n\xed\xa0\x80 0 5\n",
    b"0\n1\nE\n\xe2\x82",
    b"0\n3\nt x x\n" + b"a" * 8170 + b"\n\xff 0 5\n",
    b"0\n3\nt x x\n" + b"a" * 8190 + b"\n\xff 0 5\n",
    b"0\n3\nx x\n" + b"a" * 8170 + b"\n\xff 0 5\n",
    b"0\n3\nx x\n" + b"a" * 8190 + b"\n\xff 0 5\n",
    b"0\n3\nx x x\n" + "\U0001f600".encode() * 4096 + b"\n\xff 0 5\n",
    b"\0" * 40,
    b"0\n1\n../.. 0 5\n",
    b"0\n1\n 0 5\n",
    b"0\n1\nt -1 -5\n",
    b"0\n1\n-1 -5\n",
    b"0\n1\nt 2147483648 5\n",
    b"0\n1\n2147483648 5\n",
    b"0\n1\nt 0 9223372036854775807\n",
    b"0\n1\nt 0 9223372036854775808\n",
    b"0\n1\n3 9223372036854775808\n",
    "0\n1\nt \u0663 5\n".encode(),
    "0\n1\nt\u00a00 5\n".encode(),
    b"0\n2\nt x 5\nt 5\n",
    b"0\n2\nt 5\nt x 5\n",
    b"0\n2\nx 5\n5\n",
    b"0\n2\n5\nx 5\n",
]
RANDOM = 300


def made(kind):
    """The named ways and random edits of a good file."""
    files = [data.replace(b"E", ENTRY[kind].encode()) for data in NAMED]
    chance = Random(1)
    pieces = [b"0", b"-1", b"x", b" ", b"\t", b"\n", b"\r", b"\xff", b"5", b"\x0b", b"+", b"99999999999", b"\xc3\xa9"]
    for _ in range(RANDOM):
        count = chance.randrange(4)
        data = bytearray(f"0\n{count}\n".encode() + f"{ENTRY[kind]}\n".encode() * count)
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(data) + 1)
            data[at : at + chance.randrange(3)] = chance.choice(pieces)
        files.append(bytes(data))
    return files


@pytest.mark.parametrize("kind", ["offsets", "epochs"])
def test_a_malformed_file_is_to_us_as_to_a_broker(real_kafka, tmp_path, kind):
    files = made(kind)
    paths = [tmp_path / f"{at}" for at in range(len(files))]
    for path, data in zip(paths, files, strict=True):
        path.write_bytes(data)
    done = subprocess.run(
        [*JAVA, "-Xmx1g", "-cp", real_kafka.class_path, "ReadCheckpoints"],
        input="".join(f"{kind}\t{path}\n" for path in paths),
        text=True,
        capture_output=True,
        check=True,
    )
    answers = [line.split("\t") for line in done.stdout.split("\n")[:-1]]
    assert len(answers) == len(files)
    different = []
    for data, (answer, *details) in zip(files, answers, strict=True):
        ours = broker_reading(data, len(ENTRY[kind].split()))
        _, faults = decode_offsets(data) if kind == "offsets" else decode_leader_epochs(data)
        if ours is not ANSWERS[answer] or bool(faults) != (answer != "read"):
            different.append((data[:60], ours, bool(faults), answer, details))
    assert not different
    assert {answer for answer, *_ in answers} == set(ANSWERS)

"""The partition of a key, and the hash that it goes by, as Kafka's own producer has them."""

import random
import subprocess

from tests.kafka.real_kafka import JAVA
from tests.support.product_kafka import murmur2, partition_of_key

COUNT = 100_000
PARTITIONS = (1, 2, 3, 7, 12, 50, 1000, 2**31 - 1)


def keys():
    """Of all lengths around the words that the hash takes, bytes with and without their high bit, text, many of one length."""
    chance = random.Random(2)
    for length in range(70):
        yield bytes(length)
        yield b"\xff" * length
        yield b"\x80" * length
        yield from (chance.randbytes(length) for _ in range(200))
    yield from (f"customer-{at}".encode() for at in range(20_000))
    yield from ("ключ %d €𝄞".encode() % at for at in range(1000))
    yield from (chance.randbytes(chance.randrange(2000)) for _ in range(500))
    while True:
        yield chance.randbytes(8)


def test_keys_go_to_the_partitions_of_kafkas_producer(real_kafka):
    chance, cases = random.Random(3), []
    for key, _ in zip(keys(), range(COUNT), strict=False):
        cases.append((key, chance.choice(PARTITIONS)))
    stdin = "".join(f"{key.hex()}\t{count}\n" for key, count in cases)
    command = [*JAVA, "-cp", real_kafka.class_path, "PartitionOfKey"]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=True)
    theirs = [tuple(map(int, line.split("\t"))) for line in done.stdout.splitlines()]
    assert len(theirs) == COUNT
    assert len({partition for _, partition in theirs}) > 1000
    ours = [((murmur2(key) ^ 2**31) - 2**31, partition_of_key(key, count)) for key, count in cases]
    different = [(key, was, is_) for (key, _), was, is_ in zip(cases, theirs, ours, strict=True) if was != is_]
    assert different == []

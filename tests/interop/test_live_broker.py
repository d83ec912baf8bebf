"""The short form of `make live-broker`: no reader calls a live log corrupt."""

from collections import Counter

from live_broker import attempt, busy_broker, commands

READERS = {"verify normal": 2, "verify partition": 1, "dump-index": 1, "dump-index root": 1}
"""How often each reader runs on each of its paths."""


def test_readers_beside_a_busy_broker(tmp_path, real_kafka):
    counts, wrong = Counter(), []
    with busy_broker(tmp_path, real_kafka) as data:
        for name, arguments in commands(data):
            for _ in range(READERS.get(name, 0)):
                attempt(name, arguments, True, counts, wrong)
    assert {name for name, _ in counts} == set(READERS)
    assert wrong == []

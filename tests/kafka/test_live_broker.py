"""The short form of `make live-broker`: no reader calls a live log corrupt."""

import random

import pytest

from tests.kafka.live_broker import busy_brokers, commands, readers

READERS = {"verify normal": 2, "verify partition": 1, "dump-index": 1, "dump-index root": 1, "ls root": 1}
"""How often each reader runs on each of its paths."""


@pytest.mark.full
def test_readers_beside_a_busy_broker_give_no_false_alarm(tmp_path, real_kafka):
    with busy_brokers(tmp_path, real_kafka) as busy, readers(tmp_path / "out") as reading:
        (data,) = busy.data
        assert len([*data.glob("wide-*")]) >= 64  # as many logs are verified in forks
        for name, arguments in commands(data, random.Random(1)):
            for _ in range(READERS.get(name, 0)):
                reading.attempt(name, arguments, True)
    assert {name for name, _ in reading.counts} == set(READERS)
    assert reading.wrong == []

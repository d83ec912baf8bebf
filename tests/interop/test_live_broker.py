"""The short form of `make live-broker`: no reader calls a live log corrupt."""

from live_broker import busy_broker, loop

SECONDS = 30
SEED = 18


def test_readers_beside_a_busy_broker(tmp_path, real_kafka):
    with busy_broker(tmp_path, real_kafka) as data:
        counts, wrong = loop(data, SECONDS, SEED)
    assert sum(counts.values()) >= 3
    assert wrong == []

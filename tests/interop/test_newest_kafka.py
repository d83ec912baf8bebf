"""A short form of the comparisons on the newest Kafka: dump text, loader, cleaner. Their long forms run on 4.2.0.

With KAFKALOG_KAFKA_VERSION=4.3.1 all other tests of this directory run on it too.
"""

import random

import pytest
import test_dump_log_live
import test_sidecars_live
from clean_cases import RealCleaner
from fuzz_cleaner import fuzz_cleaner
from fuzz_loader import fuzz
from loader_cases import RealLoader, random_source
from logs import R, batch_v2, message
from random_segments import damaged, random_log

pytestmark = pytest.mark.xdist_group("newest")

LOADS = 40
CLEANED_LOGS = 2


@pytest.mark.parametrize("forced", [False, True])
def test_logs_print_the_same(newest_kafka, tmp_path, forced):
    chance = random.Random(21)
    logs = [random_log(chance) for _ in range(12)]
    logs += [damaged(random_log(chance), chance) for _ in range(12)]
    tried, failed = test_dump_log_live.compare(newest_kafka, tmp_path, logs, forced=forced)
    assert tried == 120
    assert failed < 60


@pytest.mark.parametrize("forced", [False, True])
def test_what_has_changed_since_4_2_prints_the_same(newest_kafka, tmp_path, forced):
    """Payloads without a key, old formats, offsets that do not follow each other, the first of them too."""
    bare = [R(at, 1, None if at % 2 else b"k", b"v" if at % 3 else None) for at in range(9)]
    backwards = [batch_v2([R(at, 1, b"k", b"v")]) for at in (7, 3, 9, 3, 5, 3, 0, 7)]
    logs = [
        batch_v2(bare),
        b"".join(message(each, 0) for each in bare),
        b"".join(message(each, 1) for each in bare),
        b"".join(backwards),
    ]
    assert test_dump_log_live.compare(newest_kafka, tmp_path, logs, forced=forced) == (20, 0)


@pytest.mark.parametrize(
    "damage", [lambda chance: [], lambda chance: [chance.choice([".log", ".index", ".timeindex"])]]
)
def test_segments_print_the_same(newest_kafka, tmp_path, damage):
    tried, failed = test_sidecars_live.compare(newest_kafka, tmp_path, random.Random(22), 6, damage)
    assert tried == 78
    assert failed < 40


def test_damaged_partitions_load_alike(newest_kafka, tmp_path):
    different = []
    with RealLoader(newest_kafka.class_path) as real:
        sources = [random_source(real, tmp_path, at) for at in range(6)]
        tally = fuzz(real, sources, tmp_path, seed=2, count=LOADS, show=lambda *found: different.append(found))
    assert different == []
    assert tally.tried == LOADS
    assert 0 < tally.refused < 0.8 * LOADS  # they are neither all sound nor nearly all hopeless


def test_logs_are_cleaned_alike(newest_kafka, tmp_path):
    different = []
    with RealCleaner(newest_kafka.class_path) as real:
        tally = fuzz_cleaner(real, tmp_path, seed=2, count=CLEANED_LOGS, show=lambda *found: different.append(found))
    assert different == []
    assert tally.outcomes["cleaned"] >= CLEANED_LOGS

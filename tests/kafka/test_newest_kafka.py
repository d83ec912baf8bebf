"""A short form of the comparisons on the newest Kafka: dump text, loader, cleaner. Their long forms run on 4.2.0.

With KAFKALOG_TEST_KAFKA_VERSION=4.4.0 all other tests of this directory run on it too.
"""

import random

import pytest

from tests.kafka import test_dump_log_live, test_sidecars_live
from tests.kafka.agreement import assert_agree, run_ours
from tests.kafka.clean_cases import RealCleaner
from tests.kafka.fuzz_cleaner import fuzz_cleaner
from tests.kafka.fuzz_loader import fuzz
from tests.kafka.loader_cases import RealLoader, compare, random_source, txn_index_case
from tests.kafka.random_segments import damaged, random_log
from tests.support.logs import R, batch_v2, message, write_segment

pytestmark = [pytest.mark.xdist_group("newest"), pytest.mark.exhaustive]

LOADS = 40
CLEANED_LOGS = 2


def test_logs_print_the_same(newest_kafka, tmp_path):
    chance = random.Random(21)
    logs = [random_log(chance) for _ in range(12)]
    logs += [damaged(random_log(chance), chance) for _ in range(12)]
    tried, failed = test_dump_log_live.compare(newest_kafka, tmp_path, logs)
    assert tried == 120
    assert failed < 60


def test_dump_log_prints_logs_whose_output_changed_since_4_2_like_the_newest_tool(newest_kafka, tmp_path):
    """Payloads without a key, old formats, offsets that do not follow each other, the first of them too."""
    bare = [R(at, 1, None if at % 2 else b"k", b"v" if at % 3 else None) for at in range(9)]
    backwards = [batch_v2([R(at, 1, b"k", b"v")]) for at in (7, 3, 9, 3, 5, 3, 0, 7)]
    logs = [
        batch_v2(bare),
        b"".join(message(each, 0) for each in bare),
        b"".join(message(each, 1) for each in bare),
        b"".join(backwards),
    ]
    assert test_dump_log_live.compare(newest_kafka, tmp_path, logs) == (20, 0)


@pytest.mark.parametrize(
    "damage", [lambda chance: [], lambda chance: [chance.choice([".log", ".index", ".timeindex"])]]
)
def test_segments_print_the_same(newest_kafka, tmp_path, damage):
    tried, failed = test_sidecars_live.compare(newest_kafka, tmp_path, random.Random(22), 6, damage)
    assert tried == 78
    assert failed < 40


def test_time_indexes_of_logs_that_break_off_later_print_the_same(newest_kafka, tmp_path):
    """Kafka 4.3's tool follows the whole log for each entry of a time index, so damage behind its batch counts."""
    commands = []
    for at, tail in enumerate(
        [bytes(40), bytes(17), bytes(18), b"\xff" * 60, batch_v2([R(9, 1, b"k", b"v")])[:16] + b"\x80" + bytes(70)]
    ):
        folder = tmp_path / f"t-{at}"
        folder.mkdir()
        batches = [(batch_v2([R(offset, 1000 + offset, b"k", b"v")]), offset, 1000 + offset) for offset in range(5)]
        write_segment(folder, 0, batches, 0)
        with (folder / f"{0:020d}.log").open("ab") as log:
            log.write(tail)
        commands += [["--files", str(folder / f"{0:020d}.timeindex"), *more] for more in ([], ["--verify-index-only"])]
    ours = [run_ours(argv) for argv in commands]
    real = list(newest_kafka.dump(commands, tmp_path))
    for argv, one, other in zip(commands, ours, real, strict=True):
        assert_agree(argv, one, other)
    assert [one.code for one in real[::2]] == [1, 0, 1, 1, 0]


def test_damaged_partitions_load_alike(newest_kafka, tmp_path):
    different = []
    with RealLoader(newest_kafka.class_path) as real:
        sources = [random_source(real, tmp_path, at) for at in range(6)]
        tally = fuzz(real, sources, tmp_path, seed=2, count=LOADS, show=lambda *found: different.append(found))
    assert different == []
    assert tally.tried == LOADS
    assert 0 < tally.refused < 0.8 * LOADS  # they are neither all sound nor nearly all hopeless


@pytest.mark.parametrize("version", [0, 1, 256, -1])
def test_a_transaction_index_of_another_version_is_refused(newest_kafka, tmp_path, version):
    with RealLoader(newest_kafka.class_path) as real:
        found, outcome = compare(txn_index_case(version, real.version), real, tmp_path, with_command=True)
    assert found == []
    assert (outcome.thrown is None) == (version == 0)


def test_logs_are_cleaned_alike(newest_kafka, tmp_path):
    different = []
    with RealCleaner(newest_kafka.class_path) as real:
        tally = fuzz_cleaner(real, tmp_path, seed=2, count=CLEANED_LOGS, show=lambda *found: different.append(found))
    assert different == []
    assert tally.outcomes["cleaned"] >= CLEANED_LOGS


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("metadata", [[], ["--skip-record-metadata"]])
def test_a_value_that_claims_too_much_prints_the_same(newest_kafka, tmp_path, magic, metadata):
    """The decoders of internal topics print the exception, the others abort; only messages without a codec get there."""
    commands = []
    for at, (key, claim) in enumerate([(b"\0\1\0\1g\0\1t\0\0\0\0", 2**20), (None, 5), (b"", 2**31 - 1), (b"k", 9)]):
        data = bytearray(message(R(3, 1, key, b"v"), magic))
        data[-5:-1] = claim.to_bytes(4, "big")
        (tmp_path / f"{at}").mkdir()
        log = tmp_path / f"{at}" / f"{0:020d}.log"
        log.write_bytes(data + message(R(4, 1, b"k", b"v"), magic))
        commands += [["--files", str(log), f"--{name}-decoder", *metadata] for name in test_sidecars_live.DECODERS]
        commands.append(["--files", str(log), "--print-data-log", *metadata])
    ours = [run_ours(argv) for argv in commands]
    codes = []
    for argv, one, other in zip(commands, ours, newest_kafka.dump(commands, tmp_path), strict=True):
        assert_agree(argv, one, other)
        codes.append(other.code)
    assert 0 < sum(codes) < len(codes)

"""compact against the real Cleaner: the same files from both.

`make fuzz-cleaner` tries many.
"""

import pytest

from tests.kafka.clean_cases import Cleaned, RealCleaner, differences
from tests.kafka.fuzz_cleaner import fuzz_cleaner
from tests.support.effort import DIAL

pytestmark = pytest.mark.xdist_group("loader")  # the same JVM's classes are made once

LOGS = DIAL.part(20)


def test_compact_leaves_the_files_of_the_real_cleaner(real_kafka, tmp_path, capsys):
    different = []
    with RealCleaner(real_kafka.class_path) as real:
        tally = fuzz_cleaner(
            real, tmp_path, seed=1, count=LOGS, show=lambda case, found: different.append(f"{case}: {found}")
        )
    with capsys.disabled():
        print(f" {tally} ", end="")
    assert not different, "\n".join(different)
    assert tally.logs == LOGS
    assert tally.outcomes["cleaned"] > LOGS


def test_the_comparison_of_cleaned_logs_finds_each_difference(tmp_path):
    one = Cleaned((1, 0, 9, 0, 5, 0), 9, {"0.log": b"x", "9.snapshot": b"y"})
    ours = one._replace(numbers=one.numbers[1:])
    assert differences(ours, one, tmp_path) == []
    assert differences(ours._replace(numbers=(0, 8, 0, 5, 0)), one, tmp_path) != []
    assert differences(ours._replace(end_offset=8), one, tmp_path) != []
    assert differences(ours._replace(files={"0.log": b"x"}), one, tmp_path) != []
    assert differences(ours._replace(files={**one.files, "9.snapshot": b"z"}), one, tmp_path) != []
    assert differences(ours, Cleaned(refused="KafkaException"), tmp_path) != []

"""append against the real UnifiedLog as a leader: the same batches give the same files, byte for byte."""

from collections import Counter

import pytest

from tests.kafka.append_cases import compare_append, make_append
from tests.support.effort import DIAL

pytestmark = pytest.mark.xdist_group("loader")  # the same JVM's classes are made once

CASES = DIAL.part(120)


def test_append_writes_the_files_of_the_real_log_classes(real_logs, settled, tmp_path, capsys):
    tally, different = Counter(), []
    for seed in range(CASES):
        case = make_append(seed, settled)
        found, what = compare_append(case, real_logs, tmp_path)
        tally[what] += 1
        different += [f"{case}: {found}"] if found else []
    with capsys.disabled():
        print(f" {len(settled)} logs, {dict(tally)} ", end="")
    assert not different, "\n".join(different)
    assert tally["rolled"] > CASES // 5
    assert tally["appended"] > CASES // 6
    assert tally["refused"] > CASES // 20

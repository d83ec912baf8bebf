"""append against the real UnifiedLog as a leader: the same batches give the same files, byte for byte.

The number of cases: KAFKALOG_TEST_APPEND_CASES.
"""

import os
from collections import Counter

import pytest

from tests.interop.append_cases import compare_append, make_append
from tests.interop.change_cases import RealLogs
from tests.interop.fuzz_changes import settled_logs
from tests.support.sampling import part_of

pytestmark = pytest.mark.xdist_group("loader")  # the same JVM's classes are made once

CASES = int(os.environ.get("KAFKALOG_TEST_APPEND_CASES") or part_of(120))


def test_the_same_files(real_kafka, corpus, tmp_path, capsys):
    tally, different = Counter(), []
    work = tmp_path / "work"
    work.mkdir()
    with RealLogs(real_kafka.class_path) as real:
        logs = settled_logs(CASES, 1, real, corpus, tmp_path)
        for seed in range(CASES):
            case = make_append(seed, logs)
            found, what = compare_append(case, real, work)
            tally[what] += 1
            different += [f"{case}: {found}"] if found else []
    with capsys.disabled():
        print(f" {len(logs)} logs, {dict(tally)} ", end="")
    assert not different, "\n".join(different)
    assert tally["rolled"] > CASES // 5
    assert tally["appended"] > CASES // 6
    assert tally["refused"] > CASES // 20

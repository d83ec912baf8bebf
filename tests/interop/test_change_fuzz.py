"""roll, retain, truncate and delete-records against the real UnifiedLog: the same files from both.

The number of cases: KAFKALOG_TEST_CHANGE_CASES, `make fuzz-changes` for many.
"""

import os

import pytest

from tests.interop.change_cases import VERBS, Changed, RealLogs, compare_killed, differences, make_change
from tests.interop.fuzz_changes import fuzz_changes, killed_logs, settled_logs
from tests.support.sampling import part_of

pytestmark = pytest.mark.xdist_group("loader")  # the same JVM's classes are made once

CASES = int(os.environ.get("KAFKALOG_TEST_CHANGE_CASES") or part_of(200))


@pytest.fixture(scope="module")
def real(real_kafka):
    with RealLogs(real_kafka.class_path) as logs:
        yield logs


@pytest.fixture(scope="module")
def logs(real, corpus, tmp_path_factory):
    return settled_logs(CASES, 1, real, corpus, tmp_path_factory.mktemp("settled"))


def test_the_same_files(real, logs, tmp_path, capsys):
    different = []
    tally = fuzz_changes(
        real, logs, tmp_path, seed=1, count=CASES, show=lambda case, found: different.append(f"{case}: {found}")
    )
    with capsys.disabled():
        print(f" {len(logs)} logs, {tally} ", end="")
    assert not different, "\n".join(different)
    assert tally.tried == CASES
    for verb in VERBS:
        assert tally.outcomes[verb, "changed"] > 0.3 * CASES / len(VERBS), verb


@pytest.mark.exhaustive(in_turn=True)
@pytest.mark.slow
def test_the_same_logs_where_a_broker_was_killed(real, tmp_path):
    """Ours looks at headers only, and leaves a log that a broker recovers to what it would have made of it itself."""
    killed, different = killed_logs(0, 1, real, tmp_path), []
    tally = fuzz_changes(
        real,
        killed,
        tmp_path,
        seed=2,
        count=max(CASES // 8, 25),
        show=lambda case, found: different.append(f"{case}: {found}"),
        compare=compare_killed,
    )
    assert not different, "\n".join(different)
    assert len(killed) > 4
    assert tally.outcomes["truncate", "changed"] > 1


def test_differences_are_seen(logs):
    case = make_change(0, logs)
    one = Changed({"a.log": b"x", "9.snapshot": b"y"}, (0, 9, 9))
    assert differences(case, one, one) == []
    assert differences(case, one, one._replace(offsets=(0, 8, 9))) != []
    assert differences(case, one, one._replace(files={"a.log": b"x"})) != []
    assert differences(case, one, one._replace(files={**one.files, "a.log": b"z"})) != []
    assert differences(case, one._replace(rolled=True), one._replace(rolled=False)) != []
    assert differences(case, one, Changed(None, refused="KafkaException")) != []
    assert differences(case, Changed(None, refused="x"), one) != []

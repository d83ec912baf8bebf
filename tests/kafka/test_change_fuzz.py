"""roll, retain, truncate and delete-records against the real UnifiedLog: the same files from both.

`make fuzz-changes` tries many.
"""

import pytest

from tests.kafka.change_cases import VERBS, Changed, compare_killed, differences, make_change
from tests.kafka.fuzz_changes import fuzz_changes, killed_logs
from tests.support.effort import DIAL

pytestmark = pytest.mark.xdist_group("loader")  # the same JVM's classes are made once

CASES = DIAL.part(200)


def test_changes_leave_the_files_of_the_real_log_classes(real_logs, settled, tmp_path, capsys):
    different = []
    tally = fuzz_changes(
        real_logs, settled, tmp_path, seed=1, count=CASES, show=lambda case, found: different.append(f"{case}: {found}")
    )
    with capsys.disabled():
        print(f" {len(settled)} logs, {tally} ", end="")
    assert not different, "\n".join(different)
    assert tally.tried == CASES
    for verb in VERBS:
        assert tally.outcomes[verb, "changed"] > 0.3 * CASES / len(VERBS), verb


@pytest.mark.full
@pytest.mark.slow
def test_changes_after_a_kill_leave_the_logs_of_the_real_log_classes(real_logs, tmp_path):
    """Ours looks at headers only, and leaves a log that a broker recovers to what it would have made of it itself."""
    killed, different = killed_logs(0, 1, real_logs, tmp_path), []
    tally = fuzz_changes(
        real_logs,
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


def test_the_comparison_of_changes_finds_each_difference(settled):
    case = make_change(0, settled)
    one = Changed({"a.log": b"x", "9.snapshot": b"y"}, (0, 9, 9))
    assert differences(case, one, one) == []
    assert differences(case, one, one._replace(offsets=(0, 8, 9))) != []
    assert differences(case, one, one._replace(files={"a.log": b"x"})) != []
    assert differences(case, one, one._replace(files={**one.files, "a.log": b"z"})) != []
    assert differences(case, one._replace(rolled=True), one._replace(rolled=False)) != []
    assert differences(case, one, Changed(None, refused="KafkaException")) != []
    assert differences(case, Changed(None, refused="x"), one) != []

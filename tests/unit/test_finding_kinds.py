"""Every kind of finding is in one table, and corruption has a next step."""

from kafkalog_cli.ops.checks.diagnose import DIAGNOSES
from kafkalog_cli.ops.checks.diagnoses import FILE_DIAGNOSES, LOG_DIAGNOSES
from kafkalog_cli.ops.checks.finding_kinds import FindingKind, Severity


def test_every_kind_has_one_row():
    assert not LOG_DIAGNOSES.keys() & FILE_DIAGNOSES.keys()
    assert set(DIAGNOSES) == set(FindingKind)


def test_corruption_always_has_a_next_step():
    for kind, diagnosis in DIAGNOSES.items():
        if diagnosis.severity is Severity.CORRUPTION:
            assert diagnosis.steps, kind
            assert diagnosis.broker_effect, kind

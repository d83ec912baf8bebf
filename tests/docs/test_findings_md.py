"""docs/findings.md is what docs/generate_findings.py writes, from the tables that verify goes by."""

import importlib.util
from pathlib import Path

from kafkalog_cli.ops.checks.diagnose import DIAGNOSES
from kafkalog_cli.ops.checks.diagnoses import FILE_DIAGNOSES, LOG_DIAGNOSES
from kafkalog_cli.ops.checks.finding_kinds import FindingKind, Severity

ROOT = Path(__file__).parents[2]


def test_findings_md_is_current():
    spec = importlib.util.spec_from_file_location("generate_findings", ROOT / "docs" / "generate_findings.py")
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    current = (ROOT / "docs" / "findings.md").read_text()
    assert current == generator.render(), "run: python docs/generate_findings.py"
    assert current.count("\n| `") == len(FindingKind)


def test_every_kind_has_one_row():
    assert not LOG_DIAGNOSES.keys() & FILE_DIAGNOSES.keys()
    assert set(DIAGNOSES) == set(FindingKind)


def test_corruption_always_has_a_next_step():
    for kind, diagnosis in DIAGNOSES.items():
        if diagnosis.severity is Severity.CORRUPTION:
            assert diagnosis.steps, kind
            assert diagnosis.broker_effect, kind

"""docs/refusals.md is what docs/generate_refusals.py writes, from the table that the commands go by."""

import importlib.util
from pathlib import Path

from kafkalog_cli.ops.refusals import RULES

ROOT = Path(__file__).parents[2]


def test_refusals_md_is_current():
    spec = importlib.util.spec_from_file_location("generate_refusals", ROOT / "docs" / "generate_refusals.py")
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    current = (ROOT / "docs" / "refusals.md").read_text()
    assert current == generator.render(), "run: python docs/generate_refusals.py"
    assert current.count("\n| `") == len(RULES)

"""The change that docs/architecture.md shows gives a result a field: two files, and nothing else knows of it."""

import json
import re
import shutil
import subprocess
import sys

import pytest

from tests.docs.consoles import ROOT

(CHANGE,) = re.findall(r"```diff\n(.*?)```", (ROOT / "docs" / "architecture.md").read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    """A copy of the package with the change."""
    place = tmp_path_factory.mktemp("changed")
    shutil.copytree(ROOT / "kafkalog_cli", place / "kafkalog_cli", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "docs" / "schemas", place / "docs" / "schemas")
    shutil.copy(ROOT / "docs" / "generate_schemas.py", place / "docs")
    subprocess.run(["git", "apply", "-"], cwd=place, input=CHANGE, text=True, check=True)
    return place


def run(place, *argv):
    command, environment = [sys.executable, *map(str, argv)], {"PYTHONPATH": str(place)}
    ran = subprocess.run(command, check=False, cwd=place, env=environment, capture_output=True, text=True)
    assert not ran.returncode, ran
    return ran.stdout


def test_the_change_is_of_the_result_and_of_its_text():
    assert re.findall(r"^\+\+\+ b/(.*)$", CHANGE, re.MULTILINE) == [
        "kafkalog_cli/ops/look/log_contents.py", "kafkalog_cli/cli/stats.py",
    ]  # fmt: skip


def test_a_new_field_is_in_text_json_and_schema(changed, corpus):
    log = corpus / "txn" / "data" / "tx-0"
    stats = ["-m", "kafkalog_cli", "stats", log]
    titles, row = (line.split() for line in run(changed, *stats).splitlines()[:2])
    found = json.loads(run(changed, *stats, "--format", "json").splitlines()[0])
    assert found["keyed"] == found["records"] - found["null_keys"] > 0
    assert list(found)[list(found).index("null_keys") + 1] == "keyed"
    assert "KEYED" in titles
    assert f"{found['keyed']:,}" in row
    run(changed, "docs/generate_schemas.py")
    schema = json.loads((changed / "docs" / "schemas" / "kafkalog.stats-1.json").read_text())
    assert schema["properties"]["keyed"] == {"type": "integer", "minimum": 0, "description": "records with a key"}
    assert "keyed" in schema["required"]

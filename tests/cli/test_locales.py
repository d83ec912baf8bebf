"""Locales whose encoding is not UTF-8: arguments are UTF-8 as ever, and a path that is printed names the same file."""

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.bare import kafkalog_command
from tests.support.logs import BASE_TIME_MS, R, batch_v2

ROOT = Path(__file__).parents[2]
LATIN_1 = "en_US.ISO-8859-1"
LOCALES = {
    "Latin-1": {"LC_ALL": LATIN_1},
    "C without UTF-8": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "C": {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"},
    "not installed": {"LC_ALL": "xx_YY.UTF-8", "PYTHONUTF8": "0"},
    "UTF-8": {"LC_ALL": "C.UTF-8"},
}


@pytest.fixture(scope="module")
def latin_1(tmp_path_factory):
    """The directory of a locale with ISO 8859-1, which few machines have installed."""
    if shutil.which("localedef") is None:
        pytest.skip("there is no localedef here to make a locale with")
    folder = tmp_path_factory.mktemp("locales")
    line = ["localedef", "-i", "en_US", "-f", "ISO-8859-1", str(folder / LATIN_1)]
    if subprocess.run(line, capture_output=True, check=False).returncode != 0:
        pytest.skip("localedef has no definitions here")
    return folder


@pytest.fixture(params=LOCALES)
def environment(request):
    more = {"LOCPATH": str(request.getfixturevalue("latin_1"))} if request.param == "Latin-1" else {}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHON"))}
    return {**kept, "PYTHONPATH": str(ROOT), **more, **LOCALES[request.param]}


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    root = tmp_path_factory.mktemp("verkäufe")
    (root / "orders-0").mkdir()
    records = [R(at, BASE_TIME_MS, "schlüssel".encode(), '{"e":"café"}'.encode()) for at in range(3)]
    (root / "orders-0" / f"{0:020d}.log").write_bytes(batch_v2(records))
    return root


def run(environment, *words, code=0):
    done = subprocess.run(kafkalog_command(*words), capture_output=True, check=False, env=environment, cwd="/")
    assert done.returncode == code, done.stderr.decode()
    return done.stdout.decode()


@pytest.mark.exhaustive
def test_a_path_that_is_printed_can_be_used_again(logs, environment):
    for line in run(environment, "ls", logs, "--format", "json", code=3).splitlines():
        found = json.loads(line)
        if found["type"] == "partition":
            assert found["path"] == str(logs / "orders-0")
            assert "path_b64" not in found
    line = run(environment, "ls", logs / "orders-0", code=3).splitlines()[-1]
    assert line.split()[0] == str(logs / "orders-0")
    told = next(line for line in run(environment, "verify", logs, code=3).splitlines() if "--indexes-only" in line)
    words = shlex.split(told.split("`")[1])
    assert words[:2] == ["kafkalog", "recover"]
    assert "orders-0" in run(environment, *words[1:], "--dry-run", code=3)


@pytest.mark.exhaustive
@pytest.mark.parametrize("condition", [("--json", "e=café"), ("--key", "schlüssel"), ("--value", "café")])
def test_find_takes_utf_8(logs, environment, condition):
    assert run(environment, "find", logs / "orders-0", *condition, "--count") == "orders-0:3\n"


def test_a_path_with_bytes_that_are_no_text_is_read(logs, environment, tmp_path):
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    shutil.copytree(os.fsencode(logs), folder)
    assert run(environment, "find", os.fsdecode(folder + b"/orders-0"), "--value", "café", "--count") == "orders-0:3\n"


@pytest.mark.exhaustive
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("environment", ["Latin-1", "C without UTF-8"], indirect=True)
def test_sql_reads_and_prints_utf_8(logs, environment):
    pytest.importorskip("pyspark", reason="the extra `spark` is not installed: nothing of Spark is tested")
    query = "select count(*) as n, 'ü' as u from orders where cast(value as string) like '%café%'"
    assert run(environment, "sql", logs, query, "--master", "local[1]").split() == ["n", "u", "3", "ü"]

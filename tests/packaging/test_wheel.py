"""The wheel and the sdist that pip builds: what is inside, without a network."""

import configparser
import email
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from kafkalog_cli import __version__

ROOT = Path(__file__).parents[2]
INFO = f"kafkalog_cli-{__version__}.dist-info"
DATA = f"kafkalog_cli-{__version__}.data/data/share"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    for target in ("wheel", "sdist"):
        command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", folder]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_the_wheel_has_the_package_and_nothing_else(wheel):
    names = set(wheel.namelist())
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "kafkalog_cli").rglob("*.py")}
    assert modules <= names
    assert {"kafkalog_cli/py.typed", "kafkalog_cli/format/internal_topics/schemas.json"} <= names
    assert {name.split("/")[0] for name in names} == {"kafkalog_cli", INFO, DATA.split("/", maxsplit=1)[0]}
    assert not [name for name in names if "__pycache__" in name]


def test_man_pages_and_completions_are_where_systems_look(wheel):
    names = {name.removeprefix(f"{DATA}/") for name in wheel.namelist() if name.startswith(DATA)}
    assert names == {
        *(f"man/man1/{path.name}" for path in (ROOT / "man").iterdir()),
        "bash-completion/completions/kafkalog",
        "zsh/site-functions/_kafkalog",
        "fish/vendor_completions.d/kafkalog.fish",
    }


def test_license_entry_point_and_metadata(wheel):
    assert wheel.read(f"{INFO}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    points = configparser.ConfigParser()
    points.read_string(wheel.read(f"{INFO}/entry_points.txt").decode())
    assert dict(points["console_scripts"]) == {"kafkalog": "kafkalog_cli.__main__:main"}
    metadata = email.message_from_bytes(wheel.read(f"{INFO}/METADATA"))
    assert (metadata["Name"], metadata["Version"]) == ("kafkalog-cli", __version__)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.10"


def test_the_sdist_can_build_and_test_itself(built):
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "LICENSE",
        "README.md",
        "pyproject.toml",
        "Makefile",
        "docs/tour.sh",
        "tests/conftest.py",
        "man/kafkalog.1",
    } <= names
    assert {"packaging/build.py", "packaging/kafkalog.py", "action.yml", "Dockerfile"} <= names


RUN = """
import io, json, sys
from kafkalog_cli.cli.app import run
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.disk.kernels import KernelChoice
answers = []
for forced in (False, True):
    for mode in ([], ["--format", "json"]):
        out, err = io.BytesIO(), io.BytesIO()
        arguments = ["dump-log", "--print-data-log", *mode, "--files", sys.argv[1]]
        code = run(arguments, Environment(out, err, kernels=KernelChoice(forced=forced)))
        answers.append([code, out.getvalue().decode("latin-1")])
sys.stdout.write(json.dumps([answers, "numba" in sys.modules]))
"""


@pytest.mark.slow
@pytest.mark.exhaustive(in_turn=True)
def test_a_release_has_kernels_that_need_no_numba(tmp_path):
    """`packaging/build.py` enables the hook that ships them; the first run makes machine code of their bitcode."""
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", tmp_path]
    environment = {**os.environ, "HATCH_BUILD_HOOK_ENABLE_CUSTOM": "true"}
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, env=environment)
    (path,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(path) as archive:
        archive.extractall(site)
    environment = {**os.environ, "PYTHONPATH": str(site), "NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    segment = ROOT / "docs" / "example" / "mixed-0" / "00000000000000000000.log"
    command = [sys.executable, "-c", RUN, segment]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, env=environment, text=True)
    answers, has_numba = json.loads(done.stdout)
    assert not has_numba
    assert answers[:2] == answers[2:]
    assert all(code == 0 and text for code, text in answers)

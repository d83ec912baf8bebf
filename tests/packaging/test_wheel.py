"""The wheel and the sdist that pip builds: what is inside, without a network."""

import configparser
import email
import importlib.metadata
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

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
    pages = {
        f"kafkalog_cli/ops/doctor/{path.relative_to(ROOT / 'docs')}" for path in ROOT.glob("docs/broker-messages/*.md")
    }
    assert pages <= names
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


@pytest.mark.parametrize(
    ("name", "tried", "not_tried"),
    [("numba", ["0.68.0", "0.68.1"], ["0.67.0", "0.69.0"]), ("llvmlite", ["0.50.0"], ["0.49.0", "0.51.0"])],
)
def test_numba_and_llvmlite_are_versions_that_were_tried(wheel, name, tried, not_tried):
    """The cache of machine code uses parts of Numba that may change in any version."""
    allowed = allowed_versions(wheel, name)
    assert all(allowed.contains(version) for version in (*tried, importlib.metadata.version(name)))
    assert not any(allowed.contains(version) for version in not_tried)


def test_the_newest_typer_is_allowed(wheel):
    """It was 0.29.2 on 2026-11-27, which pip installs beside the other dependencies."""
    allowed = allowed_versions(wheel, "typer")
    assert allowed.contains("0.29.2")
    assert allowed.contains(importlib.metadata.version("typer"))


def allowed_versions(wheel, name):
    metadata = email.message_from_bytes(wheel.read(f"{INFO}/METADATA"))
    requirements = map(Requirement, metadata.get_all("Requires-Dist"))
    (found,) = [one for one in requirements if one.name == name and one.marker is None]
    return found.specifier


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
@pytest.mark.full
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

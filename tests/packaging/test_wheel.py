"""The wheel and the sdist that pip builds: what is inside, without a network."""

import configparser
import email
import importlib.metadata
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import kafkalog_cli as kl

ROOT = Path(__file__).parents[2]
INFO = f"kafkalog_cli-{kl.__version__}.dist-info"
DATA = f"kafkalog_cli-{kl.__version__}.data/data/share"


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
    assert "kafkalog_cli/format/native.lib" in names
    pages = {
        f"kafkalog_cli/ops/check/doctor/{path.relative_to(ROOT / 'docs')}"
        for path in ROOT.glob("docs/broker-messages/*.md")
    }
    assert pages <= names
    assert {name.split("/")[0] for name in names} == {"kafkalog_cli", INFO, DATA.split("/", maxsplit=1)[0]}
    assert not [name for name in names if "__pycache__" in name]


def test_the_wheel_is_for_this_platform_and_every_python(built, wheel):
    (path,) = built.glob("*.whl")
    assert re.fullmatch(r".*-py3-none-(linux|macosx_11_0)_\w+\.whl", path.name)
    info = wheel.read(f"{INFO}/WHEEL").decode()
    assert "Root-Is-Purelib: false" in info
    assert f"Tag: {path.stem.partition('-py3')[2] and 'py3' + path.stem.partition('-py3')[2]}" in info


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
    assert (metadata["Name"], metadata["Version"]) == ("kafkalog-cli", kl.__version__)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.10"


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
    assert {
        "native/build.py",
        "native/hook.py",
        "native/scan.c",
        "packaging/build.py",
        "packaging/kafkalog.py",
        "action.yml",
        "Dockerfile",
    } <= names

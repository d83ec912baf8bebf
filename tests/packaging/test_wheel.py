"""The wheel and the sdist that pip builds: what is inside, without a network."""

import configparser
import email
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

"""Where the archive of Spark's classes is kept, and that nobody else's code is run."""

from pathlib import Path

import pytest

from kafkalog_cli import __version__
from kafkalog_cli.disk.cache import cache_directory


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.delenv("KAFKALOG_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache" / "kafkalog" / __version__


def test_the_cache_directory_is_the_users_and_closed_to_others(home):
    assert cache_directory() == home
    assert home.stat().st_mode & 0o777 == 0o700


def test_the_variable_names_the_directory(home, monkeypatch, tmp_path):
    monkeypatch.setenv("KAFKALOG_CACHE_DIR", str(tmp_path / "told"))
    assert cache_directory() == tmp_path / "told"


def test_an_empty_name_is_none(home, monkeypatch):
    monkeypatch.setenv("KAFKALOG_CACHE_DIR", "")
    assert cache_directory() == home


@pytest.mark.parametrize("spoil", ["writable by all", "a file"])
def test_there_is_none_if_others_can_write_there(home, spoil):
    home.parent.mkdir(parents=True)
    if spoil == "a file":
        home.write_text("")
    else:
        home.mkdir()
        home.chmod(0o777)
    assert cache_directory() is None
    assert list(Path.cwd().iterdir()) == [home.parents[1]]


@pytest.mark.parametrize("name", ["KAFKALOG_CACHE_DIR", "XDG_CACHE_HOME", "HOME"])
@pytest.mark.parametrize("value", ["cache", "~", "./~/.cache"])
def test_a_relative_path_is_none(home, monkeypatch, name, value):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv(name, value)
    assert cache_directory() is None
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize("name", ["KAFKALOG_CACHE_DIR", "XDG_CACHE_HOME", "HOME"])
def test_no_cache_is_made_in_a_log_directory(home, monkeypatch, name):
    """Where the home directory of the broker's user is its log directory: a broker ends at a directory `.cache`."""
    Path("meta.properties").write_text("version=1\n")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv(name, str(Path.cwd() if name == "HOME" else Path.cwd() / ".cache"))
    assert cache_directory() is None
    assert [path.name for path in Path.cwd().iterdir()] == ["meta.properties"]

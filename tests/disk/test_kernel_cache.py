"""Where compiled kernels are kept, and that nobody else's code is run."""

import os
from pathlib import Path

import pytest

from kafkalog_cli import __version__
from kafkalog_cli.disk.kernels import cache_directory


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache" / "kafkalog" / f"kernels-{__version__}"


def test_in_the_users_cache_for_him_alone(home):
    assert cache_directory() == home
    assert home.stat().st_mode & 0o777 == 0o700


def test_where_numba_is_told_to(home, monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "told"))
    assert cache_directory() == tmp_path / "told"


def test_an_empty_name_is_none(home, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")
    assert cache_directory() == home


@pytest.mark.parametrize("spoil", ["writable by all", "a file"])
def test_elsewhere_if_others_can_write_there(home, spoil):
    home.parent.mkdir(parents=True)
    if spoil == "a file":
        home.write_text("")
    else:
        home.mkdir()
        home.chmod(0o777)
    found = cache_directory()
    assert found != home
    assert (found.stat().st_uid, found.stat().st_mode & 0o077) == (os.getuid(), 0)
    assert list(Path.cwd().iterdir()) == [home.parents[1]]

"""What differs in the executable of `make dist`: where compiled kernels are kept, and what they are valid for."""

import sys

import pytest

from kafkalog_cli import __version__
from kafkalog_cli.disk import kernels


@pytest.fixture
def executable(tmp_path, monkeypatch):
    path = tmp_path / "kafkalog"
    path.write_bytes(b"first")
    monkeypatch.setattr(sys, "executable", str(path))
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    return path


def test_kernels_are_kept_apart_from_those_of_an_installation(executable, tmp_path, monkeypatch):
    own = kernels.cache_directory()
    assert own == tmp_path / "cache" / "kafkalog" / f"kernels-{__version__}-single-file"
    monkeypatch.delattr(sys, "frozen")
    assert kernels.cache_directory() == own.parent / f"kernels-{__version__}"


def test_in_a_directory_that_both_share_the_files_have_other_names(executable, tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    own = {kernels._machine_code_file(), kernels._marker()}
    monkeypatch.delattr(sys, "frozen")
    others = {kernels._machine_code_file(), kernels._marker()}
    assert {path.parent for path in own | others} == {tmp_path}
    assert not own & others


def test_the_variable_that_numba_reads_does_not_move_the_directory(executable, monkeypatch):
    """kafkalog sets it to its own directory before it imports Numba."""
    before = kernels._machine_code_file()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(kernels.cache_directory()))
    assert kernels._machine_code_file() == before


def test_machine_code_is_of_the_executable_not_of_the_time_it_was_unpacked(executable, monkeypatch):
    processor, stamp = before = kernels._made_for()
    assert stamp.startswith("kafkalog ")
    assert kernels._made_for() == before
    executable.write_bytes(b"second")
    assert kernels._made_for() != before
    monkeypatch.delattr(sys, "frozen")
    sources = kernels._made_for()
    assert sources[0] == processor
    assert len(sources) == 1 + len(kernels._sources()) > 10
    assert not any(stamp.startswith(f"{executable.name} ") for stamp in sources)

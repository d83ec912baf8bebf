"""What differs in the executable of `make dist`: where compiled kernels are kept, and what they are valid for."""

import runpy
import sys
from pathlib import Path

import pytest
import zstandard

from kafkalog_cli import __version__
from kafkalog_cli.disk import kernels

ROOT = Path(__file__).parents[2]


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


@pytest.fixture
def unpacking(tmp_path, monkeypatch):
    """packaging/unpack_llvm.py as a start of the executable runs it, with a packed library in its directory."""
    folder = tmp_path / "llvmlite" / "binding"
    folder.mkdir(parents=True)
    (folder / "library.so.zst").write_bytes(zstandard.compress(b"machine code" * 1000))
    monkeypatch.setattr(sys, "_MEIPASS", str(tmp_path), raising=False)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    names = runpy.run_path(str(ROOT / "packaging" / "unpack_llvm.py"))
    return folder / "library.so", names["unpack"]


def test_llvm_is_unpacked_when_llvmlite_is_imported_and_not_before(unpacking):
    library, _ = unpacking
    (finder,) = [one for one in sys.meta_path if type(one).__name__ == "UnpackLlvm"]
    assert finder.find_spec("numpy") is None
    assert not library.exists()
    assert finder.find_spec("llvmlite") is None
    assert library.read_bytes() == b"machine code" * 1000
    assert finder not in sys.meta_path
    assert sorted(path.name for path in library.parent.iterdir()) == ["library.so", "library.so.zst"]


def test_a_library_that_another_process_has_unpacked_stays(unpacking):
    library, unpack = unpacking
    library.write_bytes(b"theirs")
    unpack(library.with_suffix(".so.zst"))
    assert library.read_bytes() == b"theirs"

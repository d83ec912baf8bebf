"""What differs in the executable of `make dist`: LLVM is unpacked when it is needed."""

import runpy
import sys
from pathlib import Path

import pytest
import zstandard

ROOT = Path(__file__).parents[2]


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
    assert finder.find_spec("numpy") is None  # type: ignore[call-arg]
    assert not library.exists()
    assert finder.find_spec("llvmlite") is None  # type: ignore[call-arg]
    assert library.read_bytes() == b"machine code" * 1000
    assert finder not in sys.meta_path
    assert sorted(path.name for path in library.parent.iterdir()) == ["library.so", "library.so.zst"]


def test_a_library_that_another_process_has_unpacked_stays(unpacking):
    library, unpack = unpacking
    library.write_bytes(b"theirs")
    unpack(library.with_suffix(".so.zst"))
    assert library.read_bytes() == b"theirs"

"""Runs at each start of the executable: unpacks LLVM as soon as llvmlite is imported, and not before.

The library is written into the directory that PyInstaller made for this run, and removes at its end.
"""

import os
import sys
from pathlib import Path


class UnpackLlvm:
    """A finder of modules that finds none, but sees the first import of llvmlite."""

    def find_spec(self, name, path=None, target=None):
        """Unpack LLVM if llvmlite is imported; the next finder finds the module."""
        if name == "llvmlite":
            sys.meta_path.remove(self)
            for packed in Path(sys._MEIPASS, "llvmlite", "binding").glob("*.zst"):
                unpack(packed)


def unpack(packed):
    """Unpack a file beside itself, unless another process of this run has done it."""
    import zstandard

    library = packed.with_suffix("")
    if library.exists():
        return
    part = Path(f"{library}.{os.getpid()}")
    with packed.open("rb") as source, part.open("wb") as target:
        zstandard.ZstdDecompressor().copy_stream(source, target)
    part.replace(library)


sys.meta_path.insert(0, UnpackLlvm())

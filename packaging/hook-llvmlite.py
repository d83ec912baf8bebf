"""PyInstaller's view of llvmlite: LLVM, more than half of all bytes, is inside as one compressed file.

PyInstaller would unpack the library at each start. unpack_llvm.py unpacks it for runs that need compiled kernels.
"""

from pathlib import Path

import zstandard
from PyInstaller.config import CONF
from PyInstaller.utils.hooks import collect_dynamic_libs

datas = []
for library, folder in collect_dynamic_libs("llvmlite"):
    packed = Path(CONF["workpath"]) / f"{Path(library).name}.zst"
    with Path(library).open("rb") as source, packed.open("wb") as target:
        zstandard.ZstdCompressor(level=12).copy_stream(source, target)
    datas.append((str(packed), folder))

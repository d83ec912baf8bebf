"""A build hook of Hatch: the wheel gets the compiled kernels as LLVM's bitcode, which suits any processor.

The first run on a large log makes machine code of it in 1 to 3 s, without Numba. The hook takes half a minute, so only
`packaging/build.py` enables it: HATCH_BUILD_HOOK_ENABLE_CUSTOM=true.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ShipKernels(BuildHookInterface[Any]):
    """Adds the folder of bitcode to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile all kernels to bitcode."""
        del version
        sys.path.insert(0, self.root)
        from kafkalog_cli.disk.kernels import ship_kernels, shipped_directory

        self._made = tempfile.TemporaryDirectory(prefix="kafkalog-")
        folder = Path(self._made.name)
        ship_kernels(folder)
        place = shipped_directory().relative_to(self.root)
        for path in folder.iterdir():
            build_data["force_include"][str(path)] = str(place / path.name)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the files from where they were made."""
        del version, build_data, artifact_path
        self._made.cleanup()

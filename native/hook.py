"""A build hook of Hatch: builds the library in place, also for `pip install -e .`, and adds it to the wheel.

KAFKALOG_WHEEL names the platform of a wheel for another machine, one of build.PLATFORMS; zig compiles for it.
"""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))
import build


class NativeLibrary(BuildHookInterface[Any]):
    """Builds the library."""

    def dependencies(self) -> list[str]:
        """Return zig where there is no C compiler, and for other platforms."""
        return ["ziglang"] if os.environ.get("KAFKALOG_WHEEL") or build.compiler() is None else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the library if it is not current, and name the platform of the wheel."""
        del version
        wanted = os.environ.get("KAFKALOG_WHEEL")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{wanted or _this_platform()}"
        inside = build.LIBRARY.relative_to(self.root)
        if wanted is not None:
            self._made = tempfile.TemporaryDirectory(prefix="kafkalog-")
            library = Path(self._made.name) / inside.name
            build.build(library, build.PLATFORMS[wanted])
            build_data["force_include"][str(library)] = str(inside)
            return
        if not build.is_current():
            build.build()
        build_data["artifacts"].append(str(inside))


def _this_platform() -> str:
    if sys.platform == "darwin":  # the Python may be for two processors, and the library is for this
        return f"macosx_11_0_{platform.machine()}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")

"""Build the library of C kernels in place: python native/build.py. It does nothing if the library is current."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

SOURCES = Path(__file__).resolve().parent
LIBRARY = SOURCES.parent / "kafkalog_cli" / "format" / "native.lib"
FLAGS = (
    "-std=c11",
    "-O2",
    "-g0",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    "-Wno-unused-parameter",
)

PLATFORMS = {
    "manylinux_2_17_x86_64": "x86_64-linux-gnu.2.17",
    "manylinux_2_17_aarch64": "aarch64-linux-gnu.2.17",
    "musllinux_1_1_x86_64": "x86_64-linux-musl",
    "musllinux_1_1_aarch64": "aarch64-linux-musl",
    "macosx_11_0_x86_64": "x86_64-macos.11.0",
    "macosx_11_0_arm64": "aarch64-macos.11.0",
}
"""The platforms of a release, and zig's names for them."""


def digest() -> str:
    """Return what stands for the sources in the library; kafkalog_cli/format/native.py computes the same."""
    found = 0
    for path in sorted(SOURCES.glob("*.[ch]")):
        found = zlib.crc32(path.read_bytes(), zlib.crc32(path.name.encode(), found))
    return f"{found:08x}"


def compiler(target: str | None = None) -> list[str] | None:
    """Return the command of a C compiler: cc, else zig's. Only zig's compiles for another `target`."""
    cc = os.environ.get("CC") or shutil.which("cc")
    if cc and target is None:
        return cc.split()
    if importlib.util.find_spec("ziglang") is None:
        return None
    # Without a target, zig would compile for exactly this processor.
    return [sys.executable, "-m", "ziglang", "cc", *(("-mcpu=baseline",) if target is None else ("-target", target))]


def is_current(library: Path = LIBRARY) -> bool:
    """Whether the library was built of today's sources."""
    return library.exists() and f"kafkalog-sources:{digest()}".encode() in library.read_bytes()


def build(library: Path = LIBRARY, target: str | None = None, more: tuple[str, ...] = ()) -> None:
    """Compile and link all sources. A process that has loaded the former library keeps it."""
    command = compiler(target)
    if command is None:
        sys.exit(
            "kafkalog needs a C compiler to be installed from source: install gcc or clang, or `pip install ziglang`"
        )
    with tempfile.TemporaryDirectory(prefix="kafkalog-", dir=library.parent) as folder:
        new = Path(folder) / library.name
        environment = dict(os.environ)
        if command[0] == sys.executable:  # zig caches in HOME, which may not exist
            environment |= {"ZIG_GLOBAL_CACHE_DIR": folder, "ZIG_LOCAL_CACHE_DIR": folder}
        sources = sorted(map(str, SOURCES.glob("*.c")))
        version = f"-DKAFKALOG_SOURCES={digest()}"
        subprocess.run([*command, *FLAGS, *more, version, "-o", str(new), *sources], check=True, env=environment)
        new.chmod(0o644)
        new.replace(library)


if __name__ == "__main__":
    if not is_current():
        build()
        print(f"built {LIBRARY}")

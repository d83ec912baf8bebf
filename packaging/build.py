"""Build everything that a release has, in dist/: python packaging/build.py [FOLDER].

The parts are a wheel for each platform, the sdist, the SBOM (CycloneDX; the sdist contains it too), a wheelhouse for
machines without network, and an executable in one file with its own Python. The wheelhouse and the executable are for
the Python version and the platform that this script runs on. Tools are installed into build/ from the registry that
pip is set to.
"""

from __future__ import annotations

import hashlib
import os
import platform
import runpy
import shutil
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
TOOLS = ("build>=1.2", "cyclonedx-bom>=5", "pyinstaller>=6.11")
SBOM = "sbom.cdx.json"


def run(*command: object, cwd: Path = ROOT, **more: object) -> None:
    """Run a command; it ends the build if it fails."""
    print("+", *command, flush=True)
    subprocess.run([str(word) for word in command], check=True, cwd=cwd, **more)


def environment(name: str, *packages: object) -> Path:
    """Make an environment with these packages, and return its Python."""
    folder = BUILD / name
    venv.EnvBuilder(with_pip=True, clear=True).create(folder)
    run(folder / "bin" / "pip", "install", "--quiet", *packages)
    return folder / "bin" / "python"


def source_copy() -> Path:
    """Copy the files that git knows, or all if this is an unpacked sdist, so that a build sees nothing else."""
    copy = BUILD / "source"
    shutil.rmtree(copy, ignore_errors=True)
    if (ROOT / ".git").exists():
        names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for name in names.split("\0"):
            if name and (ROOT / name).is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, copy / name)
    else:
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns("build", "dist", "__pycache__"))
    return copy


def write_sbom(tools: Path, runtime: Path, target: Path) -> None:
    """List what an installation consists of, with versions and licenses. The same inputs give the same file."""
    run(
        *(tools, "-m", "cyclonedx_py", "environment", runtime, "--pyproject", ROOT / "pyproject.toml"),
        *("--mc-type", "application", "--output-reproducible", "--of", "JSON", "-o", target),
    )


def write_executable(runtime: Path, target: Path) -> None:
    """Build the executable. The hooks in packaging/ say which files are inside, and how."""
    work = BUILD / "pyinstaller"
    run(
        *(runtime, "-m", "PyInstaller", "--noconfirm", "--onefile", "--name", target.name, "--distpath", target.parent),
        *("--workpath", work, "--specpath", work, "--additional-hooks-dir", ROOT / "packaging"),
        *("--python-option", "X utf8=1"),  # it ignores PYTHONUTF8, with which an installation starts in other locales
        *("--exclude-module", "pyspark", "--exclude-module", "pyarrow", "--exclude-module", "zstandard._cffi"),
        ROOT / "packaging" / "kafkalog.py",
        cwd=BUILD,  # from the root, it would take the package of this clone, which may have no library in C
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )


def main() -> None:
    """Build all parts."""
    target = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist").resolve()
    target.mkdir(parents=True, exist_ok=True)
    native = runpy.run_path(str(ROOT / "native" / "build.py"))
    name = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["name"]
    platform_tag = f"cp{sys.version_info[0]}{sys.version_info[1]}-linux_{platform.machine()}"
    source = source_copy()
    tools = environment("tools", *TOOLS)
    runtime = environment("runtime", source, "typer<0.29")  # 0.29 imports Pydantic at each start
    write_sbom(tools, runtime, source / SBOM)
    shutil.copy(source / SBOM, target / SBOM)
    run(tools, "-m", "build", "--sdist", "--outdir", target, source)
    for wanted in native["PLATFORMS"]:
        one = {**os.environ, "KAFKALOG_WHEEL": wanted}
        run(tools, "-m", "build", "--wheel", "--outdir", target, source, env=one)
    (wheel,) = target.glob(f"*-manylinux_*_{platform.machine()}.whl")

    house = BUILD / "wheelhouse"
    shutil.rmtree(house, ignore_errors=True)
    run(tools, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--dest", house, wheel)
    with tarfile.open(target / f"{name}-wheelhouse-{platform_tag}.tar", "w") as tar:
        tar.add(house, "wheelhouse")

    run(runtime, "-m", "pip", "install", "--quiet", TOOLS[-1])
    run(runtime, "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", wheel)
    write_executable(runtime, target / f"kafkalog-linux-{platform.machine()}")
    files = sorted(path for path in target.iterdir() if path.name != "SHA256SUMS")
    sums = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    (target / "SHA256SUMS").write_text("".join(sums))
    for path in files:
        print(f"{path.stat().st_size / 2**20:8.1f} MiB  {path}")


if __name__ == "__main__":
    main()

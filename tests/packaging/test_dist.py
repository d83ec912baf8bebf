"""Parts of a release that `make dist` builds in minutes: `make test-dist` tries them, and other runs skip this file.

The executable runs in a root directory that has the C library and nothing else: no Python, no /usr/bin, no /proc.
"""

import json
import os
import platform
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import time
import venv
import zipfile
from pathlib import Path

import pytest

import kafkalog_cli as kl

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "example"
DIST = os.environ.get("KAFKALOG_TEST_DIST")
pytestmark = pytest.mark.skipif(
    not DIST, reason="no release is built: `make dist && make test-dist` (the second as root)"
)
FOLDER = Path(DIST or "dist").resolve()
EXECUTABLE = FOLDER / f"kafkalog-linux-{platform.machine()}"
OF_GLIBC = ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1")


def components():
    document = json.loads((FOLDER / "sbom.cdx.json").read_text())
    assert document["bomFormat"] == "CycloneDX"
    return document["metadata"]["component"]["name"], {one["name"]: one["version"] for one in document["components"]}


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    (archive,) = FOLDER.glob("*-wheelhouse-*.tar")
    folder = tmp_path_factory.mktemp("house")
    with tarfile.open(archive) as tar:
        tar.extractall(folder)
    return folder / "wheelhouse"


@pytest.fixture(scope="module")
def empty_root(tmp_path_factory):
    """A root directory with the executable, what `ldd` says that it needs, the C library, /tmp and two logs."""
    if os.geteuid() != 0:
        pytest.skip("only root can change the root directory: sudo make test-dist")
    root = tmp_path_factory.mktemp("root")
    listed = subprocess.run(["ldd", EXECUTABLE], capture_output=True, text=True, check=True).stdout
    needed = set(map(Path, re.findall(r"(/\S+) \(0x", listed)))
    assert {path.name for path in needed} <= {*OF_GLIBC, "libz.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
    (libc,) = [path for path in needed if path.name == "libc.so.6"]
    needed |= {libc.with_name(name) for name in OF_GLIBC}
    for path in sorted(needed):
        copy = root / path.relative_to("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    shutil.copy(EXECUTABLE, root / "kafkalog")
    (root / "tmp").mkdir(mode=0o1777)
    shutil.copytree(EXAMPLE, root / "logs")
    shutil.copytree(EXAMPLE, root / "torn")
    log = root / "torn" / "mixed-0" / f"{0:020}.log"
    log.write_bytes(log.read_bytes()[:-7])
    return root


def inside(root, *argv, **environment):
    command = [shutil.which("chroot") or "/usr/sbin/chroot", str(root), "/kafkalog", *argv]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_verify_in_an_empty_root(empty_root):
    done = inside(empty_root, "verify", "/logs", "--level", "deep")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("3 partitions: 3 OK, ")
    done = inside(empty_root, "verify", "/torn", "--report", "junit")
    assert (done.returncode, done.stderr) == (3, "")
    assert 'type="torn-tail"' in done.stdout
    assert not list((empty_root / "tmp").iterdir()), "what was unpacked is removed"


def test_repair_and_undo_in_an_empty_root(empty_root):
    before = {path: path.read_bytes() for path in (empty_root / "torn" / "mixed-0").glob("*.log")}
    done = inside(empty_root, "recover", "/torn", "--broker-config", "/none")
    assert done.returncode == 10
    done = inside(empty_root, "recover", "/torn/mixed-0")
    assert done.returncode == 0, done.stderr
    (name,) = re.findall(r"undo: kafkalog undo /torn/mixed-0 (\S+)", done.stdout)
    assert {path: path.read_bytes() for path in before} != before
    assert inside(empty_root, "undo", "/torn/mixed-0", name).returncode == 0
    assert {path: path.read_bytes() for path in before} == before


def test_the_executable_is_of_this_version_and_starts_soon(tmp_path):
    for argv in (["--version"], ["verify", str(EXAMPLE)]):
        times = []
        for _ in range(5):
            begin = time.monotonic()
            done = subprocess.run([EXECUTABLE, *argv], capture_output=True, text=True, check=True)
            times.append(time.monotonic() - begin)
        print(f"{' '.join(argv[:1])}: {min(times):.2f} s, of 5 runs the fastest")
        if argv == ["--version"]:
            assert done.stdout == f"kafkalog {kl.__version__}\n"


def test_sql_of_the_single_file_executable_says_that_spark_is_not_inside():
    done = subprocess.run([EXECUTABLE, "sql", EXAMPLE, "select 1"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "spark" in done.stderr.lower()
    assert "Traceback" not in done.stderr


def test_the_sbom_lists_what_is_installed(house):
    name, listed = components()
    assert name == "kafkalog-cli"
    wheels = {
        path.name.split("-")[0].lower().replace("_", "-"): path.name.split("-")[1] for path in house.glob("*.whl")
    }
    mine = wheels.pop("kafkalog-cli")
    assert mine == kl.__version__
    listed = {key.lower().replace("_", "-"): version for key, version in listed.items()}
    assert wheels.items() <= listed.items()
    assert set(listed) - set(wheels) <= {"pip", "setuptools"}
    (sdist,) = FOLDER.glob("*.tar.gz")
    with tarfile.open(sdist) as tar:
        inner = tar.extractfile(f"kafkalog_cli-{kl.__version__}/sbom.cdx.json").read()
    assert inner == (FOLDER / "sbom.cdx.json").read_bytes()


def test_the_wheelhouse_installs_without_a_network(house, tmp_path):
    venv.EnvBuilder(with_pip=True).create(tmp_path / "venv")
    pip = [tmp_path / "venv" / "bin" / "pip", "install", "--quiet", "--no-index", "--find-links", house, "kafkalog-cli"]
    subprocess.run(pip, check=True, env={"PATH": os.environ["PATH"]})
    command = [tmp_path / "venv" / "bin" / "kafkalog", "verify", EXAMPLE]
    done = subprocess.run(command, check=True, capture_output=True, cwd=tmp_path, env={})
    assert done.stdout.startswith(b"3 partitions: 3 OK, ")
    assert (tmp_path / "venv" / "share" / "man" / "man1" / "kafkalog-verify.1").exists()


INSTALLERS = {
    "uv": ("uv", "tool", "install", "--offline", "--no-index", "--find-links", "{house}", "kafkalog-cli"),
    "pipx": ("pipx", "install", "--pip-args", "--no-index --find-links {house}", "kafkalog-cli"),
}


@pytest.mark.parametrize("installer", INSTALLERS)
def test_the_installers_of_the_readme_install_without_a_network(house, tmp_path, installer):
    if shutil.which(installer) is None:
        pytest.skip(f"{installer} is not here")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "UV_PYTHON": sys.executable,
        "PIPX_DEFAULT_PYTHON": sys.executable,
    }
    command = [word.format(house=house) for word in INSTALLERS[installer]]
    subprocess.run(command, check=True, capture_output=True, env=environment)
    program = tmp_path / ".local" / "bin" / "kafkalog"
    done = subprocess.run([program, "verify", EXAMPLE], check=True, capture_output=True, cwd=tmp_path, env={})
    assert done.stdout.startswith(b"3 partitions: 3 OK, ")


PLATFORMS = {
    "manylinux_2_17_x86_64": (b"\x7fELF", 18, 62, b"libc.so.6"),
    "manylinux_2_17_aarch64": (b"\x7fELF", 18, 183, b"libc.so.6"),
    "musllinux_1_1_x86_64": (b"\x7fELF", 18, 62, b"libc.so\0"),
    "musllinux_1_1_aarch64": (b"\x7fELF", 18, 183, b"libc.so\0"),
    "macosx_11_0_x86_64": (b"\xcf\xfa\xed\xfe", 4, 7, b"libSystem"),
    "macosx_11_0_arm64": (b"\xcf\xfa\xed\xfe", 4, 12, b"libSystem"),
}
"""The platforms of a release: how their libraries begin, where the processor stands, its number, and the C library."""


@pytest.mark.parametrize("platform_tag", PLATFORMS)
def test_each_wheel_has_the_library_of_its_platform(platform_tag):
    (wheel,) = FOLDER.glob(f"*-py3-none-{platform_tag}.whl")
    with zipfile.ZipFile(wheel) as archive:
        library = archive.read("kafkalog_cli/format/native.lib")
    start, at, processor, needed = PLATFORMS[platform_tag]
    assert library.startswith(start)
    assert int.from_bytes(library[at : at + 2], "little") == processor
    assert needed in library
    assert f"kafkalog-sources:{runpy.run_path(str(ROOT / 'native' / 'build.py'))['digest']()}".encode() in library


@pytest.mark.parametrize("has_compiler", [True, False])
def test_sources_install_with_and_without_a_compiler_and_without_home(house, tmp_path, has_compiler):
    """Without cc, pip downloads the compiler of ziglang: this needs the network."""
    if has_compiler and shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    (sdist,) = FOLDER.glob("*.tar.gz")
    venv.EnvBuilder(with_pip=True).create(tmp_path / "venv")
    (tmp_path / "bin").mkdir()
    path = os.environ["PATH"] if has_compiler else str(tmp_path / "bin")
    pip = [tmp_path / "venv" / "bin" / "pip", "install", "--quiet", "--find-links", house, sdist]
    subprocess.run(pip, check=True, cwd=tmp_path, env={"PATH": path})
    command = [tmp_path / "venv" / "bin" / "kafkalog", "verify", EXAMPLE]
    done = subprocess.run(command, check=True, capture_output=True, cwd=tmp_path, env={})
    assert done.stdout.startswith(b"3 partitions: 3 OK, ")


def test_the_checksums_are_of_the_files_beside_them():
    subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=FOLDER, check=True, stdout=subprocess.DEVNULL
    )
    named = {line.split()[1] for line in (FOLDER / "SHA256SUMS").read_text().splitlines()}
    assert named == {path.name for path in FOLDER.iterdir()} - {"SHA256SUMS"}

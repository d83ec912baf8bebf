"""Kernels as machine code: the same answers as Numba's, and no Numba."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kafkalog_cli.format.kernels import native
from kafkalog_cli.format.kernels.assembling import KernelCode
from kafkalog_cli.format.kernels.native import pack, unpack

pytest.importorskip("numba")

ROOT = Path(__file__).parents[2]
KERNEL = KernelCode("a:b", "_b", "1i2", 2, b"\nco\0de")


def test_what_is_packed_is_unpacked():
    assert unpack(pack(KERNEL), "a:b") == KERNEL


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d[:-1], lambda d: d + b"x", lambda d: d[1:], lambda d: b"", lambda d: b"[]\n", lambda d: b"5\n",
        lambda d: d[:-4] + bytes(4),
    ],
)  # fmt: skip
def test_what_is_not_whole_is_not_used(damage):
    assert unpack(damage(pack(KERNEL)), "a:b") is None


def test_the_code_of_another_kernel_is_not_used():
    assert unpack(pack(KERNEL), "a:c") is None


READ = """
import sys, json, io
from kafkalog_cli.cli.app import run
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.disk.kernels import KernelChoice
answers = []
for forced in (False, True):
    for mode in ([], ["--deep-iteration"], ["--print-data-log"], ["--print-data-log", "--format", "json"]):
        out, err = io.BytesIO(), io.BytesIO()
        code = run(["dump-log", *mode, *sys.argv[1:]], Environment(out, err, kernels=KernelChoice(forced=forced)))
        answers.append([code, out.getvalue().decode("latin-1"), err.getvalue().decode("latin-1")])
sys.stdout.write(json.dumps([answers, "numba" in sys.modules]))
"""
ASK_AT_ONCE = """
import sys, json, threading
import llvmlite.binding as llvm
from kafkalog_cli.format.kernels import native
from kafkalog_cli.disk import kernels
kernels.load_compiled()
make, made = llvm.create_mcjit_compiler, []
llvm.create_mcjit_compiler = lambda *arguments: made.append(make(*arguments)) or made[-1]
native._engine.cache_clear()
native._functions.clear()
sys.setswitchinterval(1e-6)
names, asked, start = [native.SCAN, native.DECODE_BATCHES], [], threading.Barrier(8)
def ask():
    start.wait()
    asked.extend(callable(native.function(name)) for name in names)
threads = [threading.Thread(target=ask) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
sys.stdout.write(json.dumps([len(names), sum(asked), len(made), "numba" in sys.modules]))
"""
SEGMENT = ROOT / "docs" / "example" / "mixed-0" / "00000000000000000000.log"


def python(code, directory, *arguments, root=ROOT):
    """What a new process with the package of `root`, which keeps its kernels in `directory`, prints as JSON."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(directory), "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, env=environment, check=True, cwd=root, capture_output=True, text=True)
    return json.loads(done.stdout)


@pytest.mark.full
@pytest.mark.slow
def test_the_first_run_compiles_what_it_needs_and_the_next_needs_no_numba(tmp_path):
    answers, has_numba = python(READ, tmp_path, SEGMENT)
    assert has_numba
    names = {path.name for path in tmp_path.glob("machine-code-*/*")}
    assert "kafkalog_cli.format.kernels.compiled_scan.scan" in names
    assert "kafkalog_cli.format.kernels.compiled_ndjson.read_lines" not in names
    assert not any(name.rpartition(".")[2].isdigit() for name in names)
    again, has_numba = python(READ, tmp_path, SEGMENT)
    assert not has_numba
    assert "compiling" in answers[4][2]
    assert again[:4] == again[4:]
    assert [(code, out) for code, out, _ in again] == [(code, out) for code, out, _ in answers]
    assert all(code == 0 and out and not error for code, out, error in again)
    kernels, asked, engines, has_numba = python(ASK_AT_ONCE, tmp_path)
    # With an engine goes the code that it loaded.
    assert (asked, engines, has_numba) == (8 * kernels, 1, False)


READY = """
import json, sys
from kafkalog_cli.disk import kernels
from kafkalog_cli.format.kernels import native
if sys.argv[1] == "compile":
    kernels.load_compiled()
sys.stdout.write(json.dumps([kernels.are_ready({native.SCAN}), kernels.are_ready({native.SCAN, native.PUT_KEYS})]))
"""


@pytest.mark.slow
def test_another_installation_of_the_same_sources_uses_the_same_code(tmp_path):
    assert python(READY, tmp_path / "kept", "compile") == [True, False]
    copy = tmp_path / "copy"
    shutil.copytree(ROOT / "kafkalog_cli", copy / "kafkalog_cli", ignore=shutil.ignore_patterns("__pycache__"))
    assert python(READY, tmp_path / "kept", "ask", root=copy) == [True, False]
    with (copy / "kafkalog_cli" / "format" / "kernels" / "compiled_scan.py").open("a") as source:
        source.write("# another version\n")
    assert python(READY, tmp_path / "kept", "ask", root=copy) == [False, False]


@pytest.mark.slow
def test_bitcode_that_does_not_suit_is_compiled_again(monkeypatch):
    """Another LLVM cannot read it, and a processor without the instruction for CRC-32C cannot execute it."""
    from kafkalog_cli.format.kernels import assembling
    from kafkalog_cli.output.kernels import IS_PLAIN_DUMP

    kernel = native.bitcode_of(IS_PLAIN_DUMP)
    shipped = {IS_PLAIN_DUMP: kernel._replace(code=b"BC of another LLVM"), native.SCAN: native.bitcode_of(native.SCAN)}

    class Store:
        def __init__(self):
            self.saved = []

        def load(self, name):
            return None

        def save(self, name, data):
            self.saved.append((name, data))

        def shipped(self, name):
            return pack(shipped[name])

    store = Store()
    monkeypatch.setattr(native, "_store", store)
    found = native.machine_code(IS_PLAIN_DUMP)
    assert (found.name, found.arguments, found.results) == (IS_PLAIN_DUMP, kernel.arguments, 1)
    assert [name for name, _ in store.saved] == [IS_PLAIN_DUMP]
    shipped[IS_PLAIN_DUMP] = kernel
    compiled = []
    monkeypatch.setattr(native, "bitcode_of", compiled.append)
    assert native.machine_code(IS_PLAIN_DUMP).code
    assert native.machine_code(native.SCAN).code
    assert not compiled
    monkeypatch.setattr(assembling, "crc_functions", lambda: None)
    with pytest.raises(assembling.UnusableBitcode):
        assembling.assembled(shipped[native.SCAN].code)


@pytest.mark.parametrize("family", ["x86_64", "aarch64"])
def test_the_crc_instructions_of_each_processor_family_are_known_to_llvm(family):
    import llvmlite.binding as llvm

    from kafkalog_cli.format.kernels import assembling

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    steps = assembling._CRC_STEPS[family]
    module = llvm.parse_assembly(steps.functions)
    module.verify()
    machine = llvm.Target.from_triple(f"{family}-unknown-linux-gnu").create_target_machine(features=f"+{steps.feature}")
    text = machine.emit_assembly(module)
    words = {"x86_64": ("crc32q", "crc32b"), "aarch64": ("crc32cx", "crc32cb")}[family]
    assert all(word in text for word in words)


def test_kernels_that_cannot_be_kept_work(tmp_path, monkeypatch):
    """A cache directory that is full or read-only costs the compilation in each process, and nothing else."""
    from kafkalog_cli.disk import kernels

    place = tmp_path / "kept"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(place))
    monkeypatch.setattr(Path, "write_bytes", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    files = kernels._CodeFiles()
    files.save("a:b", b"data")
    assert files.load("a:b") is None
    assert not [path for path in place.rglob("*") if path.is_file()]


@pytest.mark.parametrize(("rows", "is_scanned", "needs", "expected"), [
    (59_999, True, (), False), (60_000, True, (), True), (60_000, True, ("x:y",), False), (60_000, False, (), False),
    (999_999, False, (), False), (1_000_000, False, (), True), (1_000_000, True, ("x:y",), True),
])  # fmt: skip
def test_compiled_kernels_are_chosen_when_their_rows_pay_for_them(monkeypatch, rows, is_scanned, needs, expected):
    from kafkalog_cli.disk import kernels

    loaded = []
    monkeypatch.setattr(kernels, "load_compiled", lambda: "kernels")
    monkeypatch.setattr(native, "function", loaded.append)
    monkeypatch.setattr(kernels, "are_ready", lambda names: is_scanned and set(names) == {native.SCAN})
    choice = kernels.KernelChoice()
    choice.need(*needs)
    assert choice.compiled(0, rows) == ("kernels" if expected else None)
    assert set(loaded) == ({native.SCAN, *needs} if expected else set())

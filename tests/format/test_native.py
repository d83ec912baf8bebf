"""Kernels as machine code: the same answers as Numba's, and no Numba."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kafkalog_cli.disk.kernels import cache_directory
from kafkalog_cli.format.kernels.native import MachineCode, pack, unpack

pytest.importorskip("numba")

ROOT = Path(__file__).parents[2]
KERNELS = [MachineCode("a:b", "_b", "1i2", 2, b"code"), MachineCode("a:c", "_c", "b", 1, b"\nmore\0")]


def test_what_is_packed_is_unpacked():
    assert unpack(pack(KERNELS, ["here", "now"]), ["here", "now"]) == KERNELS


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d[:-1], lambda d: d + b"x", lambda d: d[1:], lambda d: b"", lambda d: b"[]\n", lambda d: b"5\n",
        lambda d: d[:-4] + bytes(4),
    ],
)  # fmt: skip
def test_what_is_not_whole_is_not_used(damage):
    assert unpack(damage(pack(KERNELS, ["here"])), ["here"]) == []


def test_what_was_made_for_another_machine_is_not_used():
    assert unpack(pack(KERNELS, ["here"]), ["there"]) == []


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
native.use(native.unpack(kernels._machine_code_file().read_bytes(), kernels._made_for()))
make, made = llvm.create_mcjit_compiler, []
llvm.create_mcjit_compiler = lambda *arguments: made.append(make(*arguments)) or made[-1]
sys.setswitchinterval(1e-6)
names, asked, start = list(native._machine_code), [], threading.Barrier(8)
def ask():
    start.wait()
    asked.extend(callable(native.function(name)) for name in names)
threads = [threading.Thread(target=ask) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
sys.stdout.write(json.dumps([len(names), sum(asked), len(made), "numba" in sys.modules]))
"""


@pytest.mark.slow
def test_a_warm_run_reads_with_machine_code_and_without_numba(tmp_path):
    # What the tests have compiled so far is taken along: from nothing this takes a minute.
    shutil.copytree(
        cache_directory(), tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("machine-code*", "ready-*")
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    # Whoever needs a kernel first compiles those of all layers.
    first = "from kafkalog_cli.disk.kernels import KernelChoice; KernelChoice(forced=True).from_the_start()"
    subprocess.run([sys.executable, "-c", first], env=environment, check=True, cwd=ROOT)
    segment = ROOT / "docs" / "example" / "mixed-0" / "00000000000000000000.log"
    command = [sys.executable, "-c", READ, str(segment)]
    done = subprocess.run(command, env=environment, check=True, cwd=ROOT, capture_output=True, text=True)
    answers, has_numba = json.loads(done.stdout)
    assert not has_numba
    assert answers[:4] == answers[4:]
    assert all(code == 0 and out for code, out, _ in answers)
    command = [sys.executable, "-c", ASK_AT_ONCE]
    done = subprocess.run(command, env=environment, check=True, cwd=ROOT, capture_output=True, text=True)
    kernels, asked, engines, has_numba = json.loads(done.stdout)
    # With an engine goes the code that it loaded.
    assert (asked, engines, has_numba) == (8 * kernels, 1, False)
    assert kernels

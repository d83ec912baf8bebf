"""Variables of the environment that are for other programs, terminals without styles, kernels that do not load."""

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from kafkalog_cli.cli import warmup
from kafkalog_cli.disk import kernels
from tests.support.product import Environment, KernelChoice, run

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "example"
LOG = EXAMPLE / "mixed-0" / "00000000000000000000.log"
PLAIN = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}


def kafkalog(*argv, **variables):
    """What a process of its own prints; nothing may go to stderr."""
    command = [sys.executable, "-m", "kafkalog_cli", *map(str, argv)]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, env={**PLAIN, **variables}, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", ["force", "auto", "never", "none", "garbage", ""])
def test_the_variable_of_the_crc_package_is_for_others(mode):
    command = ("dump-log", "--deep-iteration", LOG)
    assert kafkalog(*command, CRC32C_SW_MODE=mode) == kafkalog(*command)


def test_no_instruction_for_the_checksum_is_an_error_with_a_reason(monkeypatch):
    from kafkalog_cli.errors import KafkalogError
    from kafkalog_cli.format import crc

    monkeypatch.setattr(crc, "_loaded", lambda: type("Software", (), {"hardware_based": False}))
    with pytest.raises(KafkalogError, match="no instruction for CRC-32C"):
        crc.crc32c_function.__wrapped__()


OF_NUMBA = {
    "NUMBA_DISABLE_JIT": "1", "NUMBA_CPU_NAME": "garbage", "NUMBA_CPU_FEATURES": "garbage", "NUMBA_NUM_THREADS": "0",
    "NUMBA_OPT": "garbage", "NUMBA_CAPTURED_ERRORS": "garbage", "NUMBA_CACHE_LOCATOR_CLASSES": "garbage",
    "NUMBA_DUMP_IR": "1",
}  # fmt: skip


@pytest.mark.slow
def test_variables_of_numba_are_for_others(tmp_path):
    """Kernels compile, and nothing of Numba's comes between the lines."""
    code = (
        "from kafkalog_cli.format.kernels import native\n"
        "kernel = native.function('kafkalog_cli.format.kernels.compiled_keys:fill_slots')\n"
        "import os\n"
        "print(type(kernel).__name__, 'NUMBA_CACHE_DIR' in os.environ, sorted(v for v in os.environ if v in WANTED))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"WANTED = {sorted(OF_NUMBA)}\n{code}"],
        capture_output=True, text=True, cwd=ROOT, env={**PLAIN, **OF_NUMBA, "NUMBA_CACHE_DIR": str(tmp_path)},
        check=False,
    )  # fmt: skip
    assert done.stdout == f"function True {sorted(OF_NUMBA)}\n", done.stderr
    assert done.returncode == 0


def on_a_terminal(*argv, **variables):
    """All that a command prints where standard output and error are a terminal."""
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(ROOT)
        os.execve(sys.executable, [sys.executable, "-m", "kafkalog_cli", *map(str, argv)], {**PLAIN, **variables})
    said = b""
    while True:
        try:
            part = os.read(terminal, 1 << 16)
        except OSError:
            break
        if not part:
            break
        said += part
    os.waitpid(pid, 0)
    os.close(terminal)
    return said


ASKED = [["ls", EXAMPLE], ["verify", EXAMPLE], ["ls", "--nonsense"]]


@pytest.mark.exhaustive
@pytest.mark.parametrize("argv", ASKED, ids=lambda argv: str(argv[-1]).rpartition("/")[2])
@pytest.mark.parametrize(
    "variables",
    [{"NO_COLOR": "1"}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": "unknown"}],
    ids=str,
)
def test_a_terminal_without_styles_gets_none(argv, variables):
    """Bold and dim are styles too."""
    styled = on_a_terminal(*argv, TERM="xterm-256color")
    plain = on_a_terminal(*argv, **{"TERM": "xterm-256color", **variables})
    assert b"\x1b" not in plain
    assert len(plain) > 60
    assert b"\x1b" in styled


def test_a_width_that_is_no_number_is_none():
    assert b"Usage" in kafkalog("--help", TERMINAL_WIDTH="wide")


class Terminal(io.BytesIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


def test_progress_without_styles(monkeypatch):
    from kafkalog_cli.output.progress import Progress

    for is_dumb in (False, True):
        monkeypatch.setenv("TERM", "dumb" if is_dumb else "xterm")
        monkeypatch.delenv("NO_COLOR", raising=False)
        stream = Terminal()
        with Progress(stream, "verify", as_json=False, clock=iter(range(100)).__next__) as progress:
            progress.advance(1 << 20)
            progress.advance(1 << 20)
        said = stream.getvalue()
        assert b"verify: 2.0 MiB" in said
        assert (b"\x1b" in said) is not is_dumb
        assert said.endswith(b" \r" if is_dumb else b"\x1b[K")


def broken():
    raise ImportError("no llvmlite\nfor this machine")


@pytest.fixture
def without_kernels(monkeypatch):
    """Compiled kernels are wanted at once, and do not load."""
    monkeypatch.setattr(kernels, "load_compiled", broken)
    monkeypatch.setattr(kernels, "WARM_ROWS", 0)
    monkeypatch.setattr(kernels, "COLD_ROWS", 0)


def test_kernels_that_do_not_load_are_told_once(without_kernels):
    said = []
    choice = KernelChoice(complain=lambda *words: said.append(words))
    assert choice.compiled(0, 10_000) is None
    assert choice.compiled(10_000, 10_000) is None
    message, step = said.pop()
    assert message == "the compiled kernels do not load, and plain Python is slower: ImportError: no llvmlite"
    assert step.startswith("python -m pip install")
    assert said == []


def test_the_library_warns_of_them(without_kernels):
    with pytest.warns(RuntimeWarning, match="the compiled kernels do not load"):
        KernelChoice().compiled(0, 10_000)


@pytest.mark.parametrize("output_format", ["text", "json"])
def test_a_command_says_it_in_its_format(without_kernels, output_format):
    out, err = io.BytesIO(), io.BytesIO()
    environment = Environment(out, err, kernels=KernelChoice())
    assert run(["ls", str(EXAMPLE), "--format", output_format], environment) == 0
    environment.kernels.compiled(0, 10_000)  # what a large log comes to
    lines = err.getvalue().decode().splitlines()
    if output_format == "text":
        assert lines[0].startswith("kafkalog: the compiled kernels do not load")
        assert lines[1].startswith("  next: python -m pip install")
        assert len(lines) == 2
    else:
        (line,) = lines
        assert json.loads(line)["next_step"].startswith("python -m pip install")
        for line in out.getvalue().splitlines():
            json.loads(line)


def test_warmup_says_why(monkeypatch):
    monkeypatch.setattr(warmup, "warm_up_kernels", broken)
    out, err = io.BytesIO(), io.BytesIO()
    assert run(["warmup"], Environment(out, err)) == 1
    assert b"do not load, and plain Python is slower: ImportError: no llvmlite" in err.getvalue()

"""man/ and completions/ are what docs/generate_reference.py makes of today's commands."""

import importlib.util
from pathlib import Path

import pytest

from kafkalog_cli.cli.app import COMMANDS
from kafkalog_cli.errors import ExitCode

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def files():
    spec = importlib.util.spec_from_file_location("generate_reference", ROOT / "docs" / "generate_reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.reference_files()


def test_every_generated_file_is_current(files):
    stale = [str(path) for path, text in files.items() if (ROOT / path).read_text() != text]
    assert stale == [], "run: python docs/generate_reference.py"


def test_no_file_is_left_of_a_command_that_is_gone(files):
    there = {path.relative_to(ROOT) for folder in ("man", "completions") for path in (ROOT / folder).iterdir()}
    assert there == set(files)


def test_every_command_has_a_page_with_every_exit_code(files):
    for name in COMMANDS:
        page = files[Path(f"man/kafkalog-{name}.1")]
        status = page[page.index('.SH "EXIT STATUS"') :]
        for code in ExitCode:
            assert f".B {int(code)}\n" in status


def test_options_of_the_real_tool_are_in_the_page(files):
    page = files[Path("man/kafkalog-dump-log.1")]
    for name in ("files", "print-data-log", "key-decoder-class", "max-bytes", "index-sanity-check"):
        assert f"\\-\\-{name}".replace("-", "\\-").replace("\\\\", "\\") in page

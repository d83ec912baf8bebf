"""man/ and completions/ are what docs/generate_reference.py makes of today's commands."""

import importlib.util
import re
from pathlib import Path

import pytest

from kafkalog_cli.cli.command_facts import exit_codes_of
from kafkalog_cli.cli.commands import COMMANDS
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


def test_every_page_has_its_sections_and_exit_codes(files):
    for name in COMMANDS:
        page = files[Path(f"man/kafkalog-{name}.1")]
        titles = re.findall(r'(?m)^\.SH "?([A-Z ]+)"?$', page)
        assert titles == [
            *("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "EXIT STATUS", "ENVIRONMENT", "FILES"),
            "SEE ALSO",
        ]
        status = page[page.index('.SH "EXIT STATUS"') : page.index('.SH "ENVIRONMENT"')]
        assert {int(code) for code in re.findall(r"\\fB(\d+)\\fR", status)} == set(exit_codes_of(name))
    main = files[Path("man/kafkalog.1")]
    assert all(f"\\fB{int(code)}\\fR" in main for code in ExitCode)
    assert all(f"\\fBkafkalog\\-{name}\\fR (1)".replace("-", "\\-").replace("\\\\", "\\") in main for name in COMMANDS)


def test_choices_and_defaults_are_in_the_page(files):
    page = files[Path("man/kafkalog-verify.1")]
    assert "\\-\\-level quick|normal|deep" in page
    assert "[default: normal]" in page


def test_options_of_the_real_tool_are_in_the_page(files):
    page = files[Path("man/kafkalog-dump-log.1")]
    for name in ("files", "print-data-log", "key-decoder-class", "max-bytes", "index-sanity-check"):
        assert f"\\-\\-{name}".replace("-", "\\-").replace("\\\\", "\\") in page

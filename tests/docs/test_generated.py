"""Pages, schemas, man pages and completions are what docs/generate_*.py make of the code."""

import importlib.util
import re
from pathlib import Path

import pytest

from tests.docs.consoles import ROOT
from tests.support.product import COMMANDS, ExitCode


def generator(name):
    spec = importlib.util.spec_from_file_location(f"generate_{name}", ROOT / "docs" / f"generate_{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def files():
    return generator("reference").reference_files()


def test_every_generator_is_tested_here():
    assert {path.stem for path in (ROOT / "docs").glob("generate_*.py")} == {
        f"generate_{name}" for name in ("findings", "refusals", "format", "index", "schemas", "reference", "screens")
    }


@pytest.mark.parametrize("name", ["findings", "refusals"])
def test_a_page_is_current(name):
    page = ROOT / "docs" / f"{name}.md"
    assert page.read_text() == generator(name).render(), f"run: python docs/generate_{name}.py"


def test_index_and_llms_txt_are_current():
    made = generator("index").render()
    assert [path for path, text in made.items() if (ROOT / path).read_text() != text] == [], "run: make docs"


def test_schemas_are_current():
    made = generator("schemas").files()
    assert [str(path) for path, text in made.items() if (ROOT / path).read_text() != text] == [], "run: make docs"
    there = {path.relative_to(ROOT) for path in (ROOT / "docs" / "schemas").iterdir()}
    assert there == set(made)


def test_man_pages_and_completions_are_current(files):
    assert [str(path) for path, text in files.items() if (ROOT / path).read_text() != text] == [], "run: make docs"
    there = {path.relative_to(ROOT) for folder in ("man", "completions") for path in (ROOT / folder).iterdir()}
    assert there == set(files)


def test_every_page_has_its_sections_and_exit_codes(files):
    for name in COMMANDS:
        page = files[Path(f"man/kafkalog-{name}.1")]
        titles = re.findall(r'(?m)^\.SH "?([A-Z ]+)"?$', page)
        titles = [title for title in titles if title != "ENVIRONMENT"]  # some commands have no variables
        assert titles == ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "EXIT STATUS", "SEE ALSO"]
        status = page.partition('.SH "EXIT STATUS"')[2].partition(".SH ")[0]
        assert {int(code) for code in re.findall(r"\\fB(\d+)\\fR", status)} == set(COMMANDS[name].exit_codes)
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

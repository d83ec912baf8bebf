"""The pictures in docs/screens show what the commands print today, in lines of a terminal, with whole words."""

import html
import importlib.util
import re
import sys

import pytest

from tests.docs.consoles import ROOT

SCREENS = ROOT / "docs" / "screens"


def loaded():
    spec = importlib.util.spec_from_file_location("generate_screens", ROOT / "docs" / "generate_screens.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


generator = loaded()


def shown_in(picture):
    """(style, text) of each piece of a picture; the rest of the markup is of the version of rich."""
    pieces = re.findall(r'<text class="([^"]*)"[^>]*>(.*?)</text>', picture)
    return [(style, html.unescape(text).replace("\xa0", " ")) for style, text in pieces]


def check(name):
    shown, printed = shown_in((SCREENS / f"{name}.svg").read_text()), shown_in(generator.render(name))
    assert len(shown) > 2
    assert shown == printed, f"run: python docs/generate_screens.py {name}"


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", generator.SCREENS)
def test_a_picture_is_current(name, tmp_path):
    (tmp_path / "small").write_bytes(b"x")
    if name == "ls" and (tmp_path / "small").stat().st_blocks != 8:
        pytest.skip("the picture shows allocated bytes of a file system with blocks of 4 KiB")
    check(name)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", generator.SCREENS)
def test_no_line_of_a_picture_is_wider_than_its_terminal(name):
    """The terminal breaks a line that is too long; only a typed command may be broken, and progress is cut."""
    printed = generator.shown_by(generator.SCREENS[name]).split("\n")
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in printed]
    assert [line for line in plain if len(line) > generator.COLUMNS and not line.startswith("$ ")] == []


def test_pictures_need_no_network():
    for path in SCREENS.iterdir():
        addresses = re.findall(r"https?://[^ \"]+", path.read_text())
        assert set(addresses) <= {"http://www.w3.org/2000/svg", "https://www.textualize.io"}, path


def test_pages_show_each_picture():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    shown = {name for page in pages for name in re.findall(r"screens/([a-z-]+)\.svg\)", page.read_text())}
    assert shown == set(generator.SCREENS) == {path.stem for path in SCREENS.iterdir()}

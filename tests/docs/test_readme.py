"""README has two marked commands, and its counts stand on the pages that it links."""

import re

from tests.docs.consoles import ROOT

README = (ROOT / "README.md").read_text()


def test_the_readme_marks_the_setup_and_the_test_command():
    marked = re.findall(r"^<!-- (.*) -->\n```sh\n(.+)\n```$", README, re.MULTILINE)
    assert [name for name, _ in marked] == ["main command", "test command"]
    assert README.count("<!--") == 2
    assert all(command.startswith("python3 -m venv .venv && ") for _, command in marked)


def test_install_lines_name_what_the_package_has():
    """They were run from a clone, with uv 0.13 and pipx 1.18; tests/packaging/test_dist.py runs both without a network."""
    project = (ROOT / "pyproject.toml").read_text()
    lines = re.findall(r"(?:uv tool install|pipx install) (\S+)", README)
    assert set(lines) == {".", "'.[spark]'"}
    extras = {extra for line in lines for extra in re.findall(r"\[(\w+)\]", line)}
    assert all(re.search(rf"^{extra} = \[", project, re.MULTILINE) for extra in extras)
    assert '[project.scripts]\nkafkalog = "' in project
    oldest, newest = re.search(r"needs Python (\S+) to (\S+)\.", README).groups()
    assert f'requires-python = ">={oldest}"' in project
    versions = re.search(r"^for version in (.*); do$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)[1].split()
    assert (versions[0], versions[-1]) == (oldest, newest)


def test_counts_stand_on_the_page_of_comparisons():
    page = (ROOT / "docs" / "compared.md").read_text()
    rows = re.findall(r"^\| .* \| (\d+ of \d+) \w+ \| ([\d-]+), (\w+) \|$", README, re.MULTILINE)
    assert len(rows) == 5
    for count, day, commit in rows:
        assert re.search(rf"\| {day}, [^|]*, {commit} \| {count} ", page), count


def test_links_lead_to_files():
    links = re.findall(r"\]\(([^)#]+)", README)
    assert len(links) > 8
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_readme_of_the_tests_has_a_row_for_each_folder():
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", (ROOT / "tests" / "README.md").read_text(), re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"\w+", row)]
    files = [*(ROOT / "tests").glob("*/*.py"), *(ROOT / "tests" / "fixtures").glob("*")]
    assert {path.relative_to(ROOT / "tests").parts[0] for path in files} - set(named) == set()
    assert len(set(named)) == len(named)

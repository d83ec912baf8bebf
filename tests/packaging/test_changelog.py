"""The files of changelog/unreleased become a section of CHANGELOG.md."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def changelog():
    spec = importlib.util.spec_from_file_location("changelog", ROOT / "packaging" / "changelog.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_release_moves_the_changes_before_the_last_release(changelog, tmp_path):
    unreleased = tmp_path / "changelog" / "unreleased"
    unreleased.mkdir(parents=True)
    (unreleased / "fixed-undo.md").write_text("`undo` works\ntwice.\n")
    (unreleased / "added-b.md").write_text("Second.\n")
    (unreleased / "added-a.md").write_text("First.\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\nAbout.\n\n## 0.1.0 (2026-12-01)\n\n- Old.\n")
    changelog.release(tmp_path, "0.2.0", "2027-01-01")
    assert (tmp_path / "CHANGELOG.md").read_text() == (
        "# Changelog\n\nAbout.\n\n## 0.2.0 (2027-01-01)\n\n### Added\n\n- First.\n- Second.\n"
        "\n### Fixed\n\n- `undo` works twice.\n\n## 0.1.0 (2026-12-01)\n\n- Old.\n"
    )
    assert list(unreleased.iterdir()) == []
    with pytest.raises(SystemExit, match="no changes"):
        changelog.release(tmp_path, "0.3.0", "2027-01-02")


def test_a_change_of_another_kind_is_refused(changelog):
    with pytest.raises(SystemExit, match=r"new-thing\.md"):
        changelog.section("0.2.0", "2027-01-01", {"new-thing.md": "A thing."})


def test_changes_that_wait_for_a_release_are_well_formed(changelog):
    changes = {path.name: path.read_text() for path in (ROOT / "changelog" / "unreleased").glob("*.md")}
    lines = [line for line in changelog.section("next", "today", changes).splitlines() if line.startswith("- ")]
    assert len(lines) == len(changes)

"""Every example of README and of docs/ is run literally, in a directory with docs/example: it prints what the page shows."""

import shutil

import pytest

from tests.docs.consoles import ROOT, Example, examples_of, is_shown, pages, printed_by

PAGES = pages()


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """A directory with docs/example and the archive of the tutorial, as a clone has them."""
    shutil.copytree(ROOT / "docs" / "example", tmp_path / "docs" / "example")
    shutil.copy2(ROOT / "docs" / "dead-broker.tar.gz", tmp_path / "docs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    return tmp_path


def check(page, *, with_spark):
    """Run the examples of a page in order. Those of Spark run only in the group of tests that has a session."""
    run_ids = {}
    for example in PAGES[page]:
        if example.is_of_spark and not with_spark:
            continue
        printed = printed_by(example, run_ids)
        wanted = "\n".join(example.shown)
        assert is_shown(example.shown, printed), f"{page}:{example.line}\n{wanted}\n-- printed:\n" + "\n".join(printed)


def of_spark(page):
    return any(example.is_of_spark for example in PAGES[page])


def test_readme_and_other_pages_have_examples():
    assert "README.md" in PAGES
    assert len(PAGES) > 2
    verbs = [example.words[0] for example in PAGES["README.md"]]
    assert {"demo", "verify", "recover", "undo"} <= set(verbs)


@pytest.mark.exhaustive
@pytest.mark.parametrize("page", PAGES)
def test_examples_print_what_is_shown(page, fresh):
    check(page, with_spark=False)


@pytest.mark.exhaustive
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("page", list(filter(of_spark, PAGES)))
def test_examples_of_spark_print_what_is_shown(page, fresh, spark):
    check(page, with_spark=True)


TEXT = "a\n```console\n$ kafkalog ls 'a b'\none\n...\ntwo, 12 ms\n$ kafkalog undo x\n```\n```sh\n$ no\n```\n"


def test_examples_of_a_page_are_found():
    assert examples_of("a.md", TEXT) == [
        Example("a.md", 3, ("ls", "a b"), ("one", "...", "two, 12 ms")),
        Example("a.md", 7, ("undo", "x"), ()),
    ]
    with pytest.raises(AssertionError, match="only kafkalog"):
        examples_of("a.md", "```console\n$ rm -r /\n```\n")


def test_the_comparison_of_shown_and_printed_lines_finds_differences():
    shown = ("one", "...", "two, 12 ms")
    assert is_shown(shown, ["one", "two, 3.4 s"])
    assert is_shown(shown, ["one", "more", "and more", "two, 1:03 min"])
    assert not is_shown(shown, ["one", "two, 3.4 s", "three"])
    assert not is_shown(shown, ["one", "more", "two"])
    assert not is_shown(("1 partition",), ["2 partitions"])
    assert is_shown(("bytes: …, code: 0",), ["bytes: 12, code: 0"])
    assert not is_shown(("bytes: …, code: 0",), ["bytes: 12, code: 1"])
    assert is_shown(("undo 20261121T131034.088Z-recover-91ac",), ["undo 20271121T131034.088Z-recover-00ff"])

"""Blocks of shell, cron and systemd lines in the pages name commands and options that exist. They name paths of a broker, so they are not run."""

import re
import shlex

import pytest
import typer

from kafkalog_cli.cli.typer_parser import main_command
from tests.docs.consoles import ROOT

BLOCK = re.compile(r"^ *```(?:sh|cron|ini|yaml)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
CALL = re.compile(r"(?:^|[\s/(=])kafkalog (?!-- )((?:'[^']*'|\"[^\"]*\"|[^|;&>#\n'\"])+)")


def calls_of(text):
    """The arguments of each call of kafkalog in the blocks of a page."""
    for block in BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            if not line.lstrip().startswith("#"):
                yield from (shlex.split(found) for found in CALL.findall(line))


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CALLS = [(str(path.relative_to(ROOT)), words) for path in PAGES for words in calls_of(path.read_text())]


@pytest.mark.parametrize("page", sorted({page for page, _ in CALLS}))
def test_commands_and_options_exist(page):
    group = main_command()
    context = typer.Context(group, info_name="kafkalog")
    for verb, *words in (words for of_page, words in CALLS if of_page == page):
        command = group.get_command(context, verb)
        assert command is not None, verb
        command.make_context(verb, words, parent=context)


def test_there_are_many():
    assert len(CALLS) > 80


def test_calls_are_found():
    page = "```sh\n# kafkalog no\nsudo /opt/kafkalog verify /a \\\n  --level deep | cat\nkafkalog sql x 'a | b' > c\n```\nkafkalog no\n"
    assert list(calls_of(page)) == [["verify", "/a", "--level", "deep"], ["sql", "x", "a | b"]]

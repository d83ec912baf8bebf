"""Blocks of shell, cron and systemd lines in the pages: their commands and options exist, and each runs on the log directory of `demo`."""

import io
import re
import shlex
import shutil

import pytest
import typer

from tests.docs.consoles import ROOT, SPARK
from tests.support.product import Environment, kafkalog_command, run

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
    group = kafkalog_command()
    context = typer.Context(group, info_name="kafkalog")
    for verb, *words in (words for of_page, words in CALLS if of_page == page):
        command = group.get_command(context, verb)  # type: ignore[attr-defined]
        assert command is not None, verb
        command.make_context(verb, words, parent=context)


PLACES = {
    "/var/lib/kafka/data": "data",
    "/var/lib/kafka/copy": "copy",
    "/var/lib/kafka/metadata": "data",
    "/data/kafka-log0": "data",
    "/disk1/kafka": "data",
    "/disk2/kafka": "copy",
    "kafka-logs": "data",
    "/var/lib/kafka": "data",
    "/etc/kafka/server.properties": "server.properties",
    "/var/lib/node_exporter/textfile/": "",
}
"""Paths of the pages, and those of the test; the first that fits is taken."""

LATER = {
    "serve": "tests/docs/test_serve_page.py",
    "replay": "tests/unit/test_replay.py",
    **dict.fromkeys(SPARK, "tests with Spark"),
}
"""Commands that are not run here, and the tests that run them."""


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    """A log directory and its copy, with a configuration, and with the topics and files that pages name."""
    root = tmp_path_factory.mktemp("pages")
    assert run(["demo", str(root / "data")], Environment(io.BytesIO(), io.BytesIO())) == 0
    shutil.copytree(root / "data" / "customers-0", root / "data" / "users-0")
    shutil.copytree(root / "data" / "customers-0", root / "data" / "app-counts-changelog-0")
    shutil.copytree(root / "data" / "__consumer_offsets-9", root / "data" / "__consumer_offsets-0")
    (root / "data" / "cleaner-offset-checkpoint").write_text("0\n1\ncustomers 0 0\n")
    quorum = '{"leaderId":-1,"leaderEpoch":0,"votedId":-1,"data_version":1}'
    (root / "data" / "__cluster_metadata-0" / "quorum-state").write_text(quorum)
    shutil.copytree(root / "data", root / "copy")
    (root / "server.properties").write_text(f"node.id=1\nlog.dirs={root / 'data'}\nlog.retention.hours=168\n")
    (root / "keys").write_text("customer-7\n")
    return root


def on_the_disk(word):
    for path, place in PLACES.items():
        if path in word and "docs/example" not in word:
            return word.replace(path, place, 1)
    return word


@pytest.mark.exhaustive
@pytest.mark.parametrize("page", sorted({page for page, words in CALLS if words[0] not in LATER}))
def test_each_command_of_a_shell_block_runs_without_a_usage_error(page, disk, tmp_path, monkeypatch):
    """In their order, on a fresh copy: no usage error, nothing that is not there, and nothing that fails."""
    shutil.copytree(disk, tmp_path, dirs_exist_ok=True)
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    config = tmp_path / "server.properties"
    config.write_text(config.read_text().replace(str(disk), str(tmp_path)))
    monkeypatch.chdir(tmp_path)
    for words in (words for of_page, words in CALLS if of_page == page and words[0] not in LATER):
        if "--each-host" in words:  # needs a cluster: tests/spark/test_each_host.py
            continue
        out, err = io.BytesIO(), io.BytesIO()
        code = run(list(map(on_the_disk, words)), Environment(out, err, terminal=None))
        room = (13,) if "--free-bytes" in words else ()  # the machine may have less room than the page wants
        assert code in (0, 3, 4, 5, *room, 14), (words, code, err.getvalue().decode())
        assert b"internal error" not in err.getvalue(), words


def test_the_pages_have_more_than_80_shell_commands():
    assert len(CALLS) > 80


def test_calls_of_a_page_are_found_in_its_shell_blocks():
    page = "```sh\n# kafkalog no\nsudo /opt/kafkalog verify /a \\\n  --level deep | cat\nkafkalog sql x 'a | b' > c\n```\nkafkalog no\n"
    assert list(calls_of(page)) == [["verify", "/a", "--level", "deep"], ["sql", "x", "a | b"]]

"""The examples in the help: each can be parsed, and those that need no Spark are run, on copies of docs/example."""

import io
import shlex
import shutil
from pathlib import Path

import pytest
import typer

from tests.support.coordinator_logs import commit, commit_key, commits, coordinator_partition_at
from tests.support.metadata_logs import batches, partition, topic_id, value
from tests.support.product import COMMANDS, EXAMPLES, Environment, kafkalog_command, run

EXAMPLE = Path(__file__).parents[2] / "docs" / "example"
LOG_DIR = "/var/lib/kafka"
NOW_MS = 1_700_000_600_000
"""Soon after the newest record of docs/example."""
SPARK = ("export", "import", "sql")
NETWORK = ("serve", "replay")
"""They need a client or a cluster: tests/serve and tests/unit/test_replay.py have their tests."""
COMPILES = ("warmup",)
ALL = [(name, example) for name, command in COMMANDS.items() for example in command.examples.values()]
ALL += [("kafkalog", example) for example in EXAMPLES.values()]
NEEDS_A_FILE = {"records.txt": b"one\ntwo\n", "keys.txt": b"key-46\n"}


def calls(command):
    """The arguments of each call of kafkalog in a command line of a shell."""
    for part in command.split(" | "):
        words = shlex.split(part)
        yield words[words.index("kafkalog") + 1 :]


@pytest.mark.parametrize(("name", "command"), ALL, ids=[command for _, command in ALL])
def test_an_example_has_only_options_that_there_are(name, command):
    group = kafkalog_command()
    context = typer.Context(group, info_name="kafkalog")
    seen = []
    for verb, *words in calls(command):
        seen.append(verb)
        found = group.get_command(context, verb)  # type: ignore[attr-defined]
        found.make_context(verb, words, parent=context)
    assert name == "kafkalog" or name in seen


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    """A log directory with the topics of the examples, a backup, and files of records and keys."""
    root = tmp_path_factory.mktemp("examples")
    for top in ("kafka", "backup"):
        for name, source in (("orders-0", "mixed-0"), ("orders-1", "mixed-1"), ("customers-0", "levels-0")):
            shutil.copytree(EXAMPLE / source, root / top / name)
        for name, offset in (("recovery-point-offset-checkpoint", 0), ("replication-offset-checkpoint", 125)):
            (root / top / name).write_text(f"0\n2\norders 0 {offset}\norders 1 {offset}\n")
        coordinator_partition_at(root / top, 9, commits((commit_key("billing"), commit(7))))
    for name, data in NEEDS_A_FILE.items():
        (root / name).write_bytes(data)
    (root / "server.properties").write_bytes(b"log.retention.hours=1\n")
    return root


RUN = [(name, command) for name, command in ALL if name not in (*SPARK, *COMPILES, *NETWORK)]


@pytest.mark.parametrize(("name", "command"), RUN, ids=[command for _, command in RUN])
def test_each_example_of_help_runs_without_a_usage_error(disk, tmp_path, monkeypatch, name, command):
    root = shutil.copytree(disk, tmp_path / "disk")
    monkeypatch.chdir(root)
    if name == "cluster":
        log = root / "kafka" / "__cluster_metadata-0"
        log.mkdir()
        records = [value("TopicRecord", name="orders", topicId=topic_id(1)), partition(topic_id(1))]
        (log / f"{0:020}.log").write_bytes(batches([records])[0])
    piped = b""
    for argv in calls(command):
        words = [
            word.replace(LOG_DIR, str(root / "kafka"))
            .replace("/mnt/backup", str(root / "backup"))
            .replace("/mnt/", f"{root}/")
            .replace("/etc/kafka/", f"{root}/")
            for word in argv
        ]
        out, err = io.BytesIO(), io.BytesIO()
        environment = Environment(stdout=out, stderr=err, stdin=io.BytesIO(piped), terminal=None, now_ms=lambda: NOW_MS)
        code = run(words, environment)
        piped = out.getvalue()
        is_no_match = name == "find" and code == 1 and not err.getvalue()
        assert code not in (1, 2) or is_no_match, (words, err.getvalue())
        # The run of the example is not there to be undone, and 20 GiB cannot be freed.
        assert code != 10 or name == "undo", (words, err.getvalue())
        assert code != 13 or "--free-bytes" in words, (words, err.getvalue())
        assert b"internal error" not in err.getvalue()

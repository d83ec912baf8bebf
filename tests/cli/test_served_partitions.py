"""Commands that answer as a broker does leave out directories that it does not serve: -delete, -future and -stray."""

import shutil

import pytest

import kafkalog_cli as kl
from tests.support.commands import json_of, kafkalog, writable_copy

MARKS = ["0123456789abcdef0123456789abcdef-delete", "0123456789abcdef0123456789abcdef-future",
         "0123456789abcdef0123456789abcdef-stray"]  # fmt: skip
COMMANDS = [
    ("read", "--topic", "v2-none", "--format", "json"), ("read", "--topic", "v2-none", "--merge-by-time", "--print", "offset,timestamp"),
    ("find", "--topic", "v2-none", "--regex", ".", "--format", "json"),
    ("lookup-time", "--topic", "v2-none", "--earliest"), ("lookup-time", "--topic", "v2-none", "0", "--format", "json"),
    ("lookup-offset", "--topic", "v2-none", "3"), ("stats", "--topic", "v2-none", "--format", "json"),
]  # fmt: skip


@pytest.fixture
def log_dir(corpus, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return writable_copy(corpus / "v2-none" / "data", tmp_path / "logs")


def set_aside(log_dir, mark):
    return shutil.copytree(log_dir / "v2-none-0", log_dir / f"v2-none-0.{mark}")


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_answer_alike_with_and_without_a_directory_that_brokers_ignore(command, mark, log_dir):
    argv = (command[0], "logs", *command[1:])
    wanted = kafkalog(*argv)
    assert wanted.code == 0
    set_aside(log_dir, mark)
    assert kafkalog(*argv) == wanted


@pytest.mark.parametrize("mark", MARKS)
def test_a_directory_that_brokers_ignore_is_read_when_named_by_its_path(mark, log_dir):
    """A topic whose only directory is set aside is not found, and the message has the path that is."""
    aside = set_aside(log_dir, mark)
    shutil.rmtree(log_dir / "v2-none-0")
    code, _, err = kafkalog("read", "logs", "--topic", "v2-none")
    assert (code, f"logs/{aside.name} is a directory that a broker does not serve" in err) == (10, True)
    code, records, err = json_of("read", f"logs/{aside.name}")
    assert (code, err, len(records) > 100) == (0, [], True)


@pytest.mark.parametrize("mark", MARKS)
def test_the_library_leaves_out_a_directory_that_brokers_ignore(mark, log_dir):
    def found():
        return [(one.topic, one.partition, one.offset) for one in kl.find([log_dir], regex=".")]

    wanted = found()
    set_aside(log_dir, mark)
    assert found() == wanted
    assert len(wanted) > 100

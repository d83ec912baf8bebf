"""Command lines that typer alone would read in another way than kafkalog's users write them, and their exit codes."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import kafkalog

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "example"
PARTITION = EXAMPLE / "mixed-0"
SEGMENT = PARTITION / f"{0:020d}.log"


def shell(command):
    line = f"{sys.executable} -m kafkalog_cli {command}"
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, cwd=ROOT, check=False)


@pytest.mark.parametrize("option", ["--key-decoder-class", "--value-decoder-class"])
def test_a_decoder_option_without_its_argument_takes_no_option_after_it(option):
    expected = kafkalog("dump-log", "--files", SEGMENT, "--print-data-log", "--deep-iteration")
    assert expected.code == 0
    assert kafkalog("dump-log", "--files", SEGMENT, option, "--print-data-log") == expected
    assert kafkalog("dump-log", "--files", SEGMENT, option, "hex").out != expected.out


def test_an_option_that_kafka_dump_log_takes_once_is_refused_twice():
    code, _, err = kafkalog("dump-log", "--files", SEGMENT, "--files", SEGMENT)
    assert (code, "takes only one --files" in err) == (2, True)


@pytest.mark.parametrize("time", ["-90s", "-15m", "-2h", "-7d"])
def test_a_time_before_now_is_an_argument_of_lookup_time(time):
    """-2h looks like the options -2 and -h, and the others like unknown options."""
    code, out, err = kafkalog("lookup-time", PARTITION, time, "--now", "2023-11-14T22:21:00Z")
    assert (code, err) == (0, "") if time != "-90s" else code == 0
    assert "offset" in out
    assert "Usage" not in out


def test_help_of_lookup_time_is_still_an_option():
    assert kafkalog("lookup-time", "-h").out.startswith("Find the first record at or after a time.")


def test_a_query_may_begin_with_a_comment():
    """The message is that of a path that is not there: the words were taken as LOG_DIR and QUERY."""
    code, _, err = kafkalog("sql", "/nowhere", "-- the rows\nselect 1")
    assert code != 2
    assert "no such option" not in err


def test_a_value_of_an_option_may_begin_with_a_dash():
    code, out, _ = kafkalog("dump-log", SEGMENT, "--key", "-- k", "--print-data-log")
    assert (code, out.count("| offset")) == (0, 0)
    code, _, err = kafkalog("delete-records", PARTITION, "--before", "-2", "--single-replica", "--dry-run")
    assert (code, "--before" in err) == (2, True)


def test_a_returned_exit_code_is_that_of_the_process(tmp_path):
    damaged = tmp_path / SEGMENT.name
    damaged.write_bytes(SEGMENT.read_bytes()[:-5])
    assert shell(f"dump-log --strict {damaged}").returncode == 3
    assert shell(f"find {PARTITION} --key no-such-key").returncode == 1
    assert shell("ls /nowhere").returncode == 10
    assert shell("ls --nonsense").returncode == 2


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["--help", "--version", "ls --help", "ls docs/example"])
def test_a_full_disk_is_13_without_a_traceback(command, unbuffered, monkeypatch):
    """Python keeps what a full disk has not taken in its buffer, unless PYTHONUNBUFFERED is set, as in containers."""
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    done = shell(f"{command} > /dev/full")
    assert done.returncode == 13
    assert done.stderr.splitlines()[-1] == "kafkalog: No space left on device (where output goes)"


def test_a_wrong_value_names_its_option_and_the_choices():
    for words, wanted in (
        (["ls", ".", "--format", "xml"], "'--format': 'xml' is not one of 'text', 'json', 'ndjson'"),
        (["verify", ".", "--level", "all"], "'--level': 'all' is not one of 'quick', 'normal', 'deep'"),
        (["purge", ".", "--jobs", "many"], "'--jobs': "),
        (["truncate", ".", "--to", "-1"], "'--to': "),
        (["append", ".", "--batch-bytes", "0"], "'--batch-bytes': "),
        (["dump-log", "--max-bytes", "x", "--files", "."], "'--max-bytes': "),
    ):
        code, _, err = kafkalog(*words)
        assert code == 2
        assert wanted in err
        assert "Value error" not in err


def test_a_path_with_bytes_that_are_no_text_is_taken(tmp_path):
    name = tmp_path / "logs-\udcff"
    name.mkdir()
    code, _, err = kafkalog("ls", name / "t-0", errors="surrogateescape")
    assert (code, "no such file or directory" in err) == (10, True)


def test_a_group_of_options_keeps_the_defaults_of_its_fields():
    """`read` takes the range of offsets as one group: what is not given is the whole log."""
    whole = kafkalog("read", PARTITION, "--format", "json").out
    assert kafkalog("read", PARTITION, "--format", "json", "--from", "earliest").out == whole
    assert whole.count('"type":"record"') > 100

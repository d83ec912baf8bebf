"""Random command lines on logs of real brokers: exit codes, JSON, and that readers and refusals change nothing."""

import json
import random
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.support.commands import everything, kafkalog, options_of, writable_copy
from tests.support.product import COMMANDS, ExitCode

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
NOT_TRIED = {"serve", "replay", "warmup", "demo", "sql", "export", "import"}
"""They run without an end, need a cluster or Spark, or write elsewhere; they have random tests of their own."""
READERS = {
    *("ls", "read", "find", "stats", "inspect", "lookup-offset", "lookup-time", "dump-log", "dump-index"),
    *("groups", "transactions", "cluster", "doctor", "verify"),
}
ELSEWHERE = {"help", "output", "metrics", "html", "state", "history", "salvage", "report", "io_bytes_per_s"}
"""Options that name a file or directory for results, or slow a command down."""
WORDS = {
    "TIME": ["1700000000000", "1700000000", "2024-01-01", "-15m", "2030-01-01T00:00:00Z"],
    "OFFSET": ["0", "5", "100", "earliest", "latest"],
    "BYTES": ["1", "1000", "1MiB", "10GiB"],
    "FORMAT": ["auto", "json", "string", "long", "hex", "avro"],
    "FIELD,...": ["offset,key", "value"],
    "DIR": [".", "/nowhere"],
}
NUMBERS = ["0", "1", "2", "10", "1000", "-1", "9223372036854775807", "99999999999999999999", "nan", "inf"]
ODD = ["", "x", "ö", "*", "[", "--", "a=b", "a\nb", "\x1b[31m", "x" * 300, "cleanup.policy=compact", "retention.ms=1"]
SEEDS = 24
RUNS = 20


def value_of(chance, option, topics):
    if "|" in option.metavar:
        return chance.choice(option.metavar.split("|"))
    if option.name == "topic":
        return chance.choice(topics)
    return chance.choice(WORDS.get(option.metavar, NUMBERS) if chance.random() < 0.8 else ODD)


def command_line(chance, name, path, topics):
    options = {text: one for text, one in options_of(name).items() if one.name not in ELSEWHERE}
    words = [name, str(path)]
    arguments = [one for one in COMMANDS[name].params if one.param_type_name == "argument"]
    words += [chance.choice(["0", "5", "-15m", "1700000000000", "abc"]) for _ in arguments[1:]]
    for text in chance.sample([*options], min(len(options), chance.choice([0, 1, 1, 2, 2, 3]))):
        words += [text] if options[text].is_flag else [text, value_of(chance, options[text], topics)]
    return words


def check_objects(words, text):
    for line in text.splitlines():
        told = json.loads(line)
        schema = json.loads((SCHEMAS / f"{told['schema'].replace('/', '-')}.json").read_text())
        Draft202012Validator(schema).validate(told)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_command_lines_end_with_a_documented_code_and_valid_objects(
    corpus, tmp_path, monkeypatch, seed, evidence
):
    chance, tried = random.Random(seed), 0
    log_dirs = sorted({log.parent.parent for log in corpus.rglob("*.log")})
    monkeypatch.chdir(tmp_path)
    for number in range(RUNS):
        source = chance.choice(log_dirs)
        root = writable_copy(source, tmp_path / str(number))
        partitions = sorted({log.parent for log in root.rglob("*.log")})
        topics = [one.name.rpartition("-")[0] for one in partitions]
        name = chance.choice([one for one in COMMANDS if one not in NOT_TRIED])
        path = chance.choice([root, *partitions])
        if name in {"dump-log", "dump-index"}:
            path = chance.choice([one for one in root.rglob("*") if one.is_file()])
        words = command_line(chance, name, path, topics)
        before = everything(tmp_path)
        code, out, err = kafkalog(*words, errors="replace")  # this fails for an internal error
        assert code in set(ExitCode), words
        assert code == 0 or out or err or (name == "find" and code == 1), words
        if name in READERS or code == ExitCode.USAGE or "--dry-run" in words:
            assert everything(tmp_path) == before, words
        if "--format" in words and words[words.index("--format") + 1] in {"json", "ndjson"} and name != "dump-log":
            check_objects(words, out)
            check_objects(words, err)
        tried += 1
    evidence("R53", tried, RUNS)

"""dump-log of whole segments (log, indexes, snapshot) against the real kafka-dump-log, well formed and damaged."""

import random
from pathlib import Path

import pytest

from tests.kafka.agreement import assert_agree, run_ours
from tests.kafka.random_segments import damaged, random_files
from tests.support.effort import DIAL

DECODERS = ["offsets", "transaction-log", "cluster-metadata", "share-group-state", "remote-log-metadata"]
PACKAGE = "org.apache.kafka.tools.api"


def modes(chance, path):
    """Command lines for the files of one segment; `path` has no suffix yet."""
    size = chance.choice(["0", "-1", "10", "61", "100", "200", "1000"])
    for suffix in (".index", ".timeindex"):
        for options in ([], ["--index-sanity-check"], ["--verify-index-only"], ["--max-message-size", size]):
            yield [f"{path}{suffix}", *options]
    yield [f"{path}.txnindex"]
    yield [f"{path}.snapshot"]
    yield [f"{path}.log", f"--{chance.choice(DECODERS)}-decoder" if chance.random() < 0.5 else "--deep-iteration"]
    kinds = chance.choice(["Integer", "Long", "String"]), chance.choice(["Integer", "Long", "String"])
    key, value = (f"{PACKAGE}.{kind}Decoder" for kind in kinds)
    yield [f"{path}.log", "--key-decoder-class", key, "--value-decoder-class", value]
    yield [f"{path}.log,{path}.index,{path}.timeindex", "--deep-iteration"]


def compare(real_kafka, folder, chance, segments, damage):
    """How many commands were tried, and how many of them the real tool did not get through."""
    commands, written = [], {}
    for at in range(segments):
        base = chance.choice([0, 0, 7, 2**31 + 5])
        files = random_files(chance, base)
        spoiled = damage(chance)
        for suffix in spoiled:
            files[suffix] = damaged(files[suffix], chance)
        if spoiled and chance.random() < 0.05:
            del files[".log"]
        name = str(folder / str(at) / f"{base:020d}")
        for number, words in enumerate(modes(chance, name)):
            # Kafka 4.3's tool closes the indexes that it prints, which cuts off what is no whole entry: each command
            # line gets files of its own, as they were.
            (folder / f"{at}-{number}").mkdir()
            own = str(folder / f"{at}-{number}" / f"{base:020d}")
            for suffix, data in files.items():
                Path(own + suffix).write_bytes(data)
                written[Path(own + suffix)] = data
            commands.append(["--files", *(word.replace(name, own) for word in words)])
    ours = [run_ours(argv, version=real_kafka.version) for argv in commands]  # first: the real tool creates files
    assert {path: path.read_bytes() for path in folder.rglob("*.*")} == written
    failed = 0
    for argv, ran, real in zip(commands, ours, real_kafka.dump(commands, folder), strict=True):
        assert_agree(argv, ran, real)
        failed += real.code
    return len(commands), failed


@pytest.mark.full
@pytest.mark.parametrize("seed", [1, 2])
def test_dump_log_prints_random_index_files_like_the_real_tool(real_kafka, tmp_path, seed):
    tried, failed = compare(real_kafka, tmp_path, random.Random(seed), 40, lambda chance: [])
    assert tried == 520
    assert failed < 200


DAMAGES = [[".log"], [".index"], [".timeindex"], [".snapshot"], [".txnindex"], [".log", ".index", ".timeindex"]]


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_dump_log_prints_damaged_index_files_like_the_real_tool(real_kafka, tmp_path, seed):
    count = DIAL.part(60)
    tried, failed = compare(real_kafka, tmp_path, random.Random(seed), count, lambda chance: chance.choice(DAMAGES))
    assert tried == 13 * count
    assert tried / 6 < failed < 0.8 * tried

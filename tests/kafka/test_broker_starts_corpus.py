"""A real broker starts on what `kafkalog recover` leaves of each damaged case of the corpus, and serves it.

The partitions of the cases are put in the place of empty ones of new topics with the same settings: crashed ones in
a log directory without the marker of a clean shutdown, the others in one with it.
"""

import re
import shutil
from typing import NamedTuple

import pytest

from tests.kafka.broker import Client, broker
from tests.kafka.broker_records import our_lines, served_lines
from tests.kafka.recovering import Recovered, complaints, kafkalog, recover

# What its fixtures make is made once.
pytestmark = [pytest.mark.xdist_group("broker"), pytest.mark.full]

ADDED = 5
CHECKPOINTS = "recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"
MARKER = ".kafka_cleanshutdown"
ODD_EPOCH = "crash-flip-epoch"


class Result(NamedTuple):
    cases: list
    first: Recovered
    salvaged: list
    """The cases with damage before valid batches."""
    second: Recovered
    ours: dict
    served: dict
    added: dict
    entries: list
    third: Recovered
    """After the broker's clean stop."""


@pytest.fixture(scope="module", params=["crash", "clean"])
def result(request, real_kafka, corpus, tmp_path_factory):
    cases = sorted(path.name for path in corpus.glob(f"{request.param}-*") if (path / "before").is_dir())
    class_path = real_kafka.broker_class_path
    with broker(tmp_path_factory.mktemp("broker"), class_path) as one, Client(one.address, class_path) as client:
        one.start()
        for case in cases:
            client.do("create", case, **settings_of(corpus / case))
        one.stop()
        put_in_place({case: corpus / case / "before" for case in cases}, one.data)
        if request.param == "crash":
            (one.data / MARKER).unlink()
        yield recover_and_start(cases, one, client)


def settings_of(case):
    """The topic's settings, from the script that made the case."""
    topic = re.search(rf"^topic {re.escape(case.name)}((?: \S+=\S+)*)$", (case / "how.txt").read_text(), re.MULTILINE)
    return dict(word.split("=", 1) for word in topic[1].split())


def put_in_place(log_dirs, data):
    """The files and checkpoint lines of topics from the log directory of each; topic ids stay those of the new ones."""
    for topic, log_dir in log_dirs.items():
        source, target = log_dir / f"{topic}-0", data / f"{topic}-0"
        topic_id = (target / "partition.metadata").read_bytes()
        shutil.rmtree(target)
        shutil.copytree(source, target)
        (target / "partition.metadata").write_bytes(topic_id)
    for name in CHECKPOINTS:
        lines = [line for line in entries_of(data / name) if line.split()[0] not in log_dirs]
        for topic, log_dir in log_dirs.items():
            path = log_dir / name
            lines += [line for line in entries_of(path) if line.split()[0] == topic] if path.exists() else []
        (data / name).write_text("".join(f"{line}\n" for line in ["0", len(lines), *lines]))


def entries_of(checkpoint):
    return checkpoint.read_text().splitlines()[2:]


def recover_and_start(cases, one, client):
    first = recover(one.data)
    salvaged = [case for case in cases if first.partitions[f"{case}-0"]["refused"]]
    for case in salvaged:
        directory, out = one.data / f"{case}-0", one.folder / "out"
        done = kafkalog("recover", "--salvage", out, directory)
        assert done.code in (3, 4), done.err  # 3: nothing is lost but the end of the log
        directory.rename(one.folder / f"{case}-0.damaged")
        (out / f"{case}-0").rename(directory)
    second = recover(one.data)
    ours = {case: our_lines(one.data / f"{case}-0") for case in cases}
    one.start()
    for seed, case in enumerate(cases):
        client.do("produce", case, count=ADDED, per=2, seed=seed)
    read = served_lines(client, cases, one.folder)
    entries = one.log_entries()
    one.stop()
    served = {case: read[case].up_to(second.partitions[f"{case}-0"]["log_end_offset"]) for case in cases}
    added = {case: len(read[case].uncommitted) - len(served[case].uncommitted) for case in cases}
    return Result(cases, first, salvaged, second, ours, served, added, entries, recover(one.data))


def test_a_second_recover_of_the_corpus_has_nothing_to_do(result):
    """But for a salvaged log that ends below its high watermark: that line is lowered, as the broker would."""
    assert len(result.cases) > 20
    changed = {name for name, found in result.second.partitions.items() if found["changes"] or found["checkpoints"]}
    assert result.second.code == 0, result.second.stderr
    assert len(changed) == result.second.changed
    assert changed <= {f"{case}-0" for case in result.salvaged}
    files = [result.second.partitions[name]["checkpoints"] for name in changed]
    assert all([line["file"] for line in lines] == ["replication-offset-checkpoint"] for lines in files)
    assert not any(result.second.partitions[name]["changes"] for name in changed)


def test_a_broker_repairs_nothing_in_the_recovered_corpus(result):
    told = complaints(result.entries, result.cases)
    # The leader epoch of a batch is not under its CRC: here a valid one says 77, and the new leader has a lower one.
    epochs = told.pop(ODD_EPOCH, [])
    assert told == {}
    assert all("New epoch entry" in text for text in epochs)


def test_a_broker_serves_of_the_recovered_corpus_what_read_prints(result):
    for case in result.cases:
        assert result.served[case] == result.ours[case], case
        assert len(result.ours[case].uncommitted) >= 50, case


def test_a_broker_takes_new_records_into_the_recovered_corpus(result):
    assert result.added == dict.fromkeys(result.cases, ADDED)


def test_recover_of_the_corpus_has_nothing_to_do_after_the_next_clean_stop(result):
    assert (result.third.code, result.third.changed) == (0, 0), result.third.stderr

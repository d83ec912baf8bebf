"""Imports of random logs by the real Kafka: its loader changes nothing, dump-log prints the same, consumers get every record.

`make fuzz-imports` tries many.
"""

import shutil

import pytest

from tests.kafka.broker import Client, broker
from tests.kafka.broker_records import served_lines
from tests.kafka.fuzz_imports import fuzz_imports, load_differences
from tests.kafka.loader_cases import RealLoader
from tests.kafka.recovering import complaints
from tests.spark.import_cases import expected, make_case, rows_of, run_case
from tests.spark.importing import import_into, new_log_dir
from tests.support.effort import DIAL

LOGS = DIAL.part(60)
TOPICS = [f"t{number:02d}" for number in range(10)]


@pytest.mark.xdist_group("loader")  # the same JVM's classes are made once
def test_imported_logs_load_in_the_real_loader_with_the_same_records(real_kafka, tmp_path, capsys):
    different = []
    with RealLoader(real_kafka.class_path) as real:
        tally = fuzz_imports(
            real_kafka,
            real,
            tmp_path,
            seed=0,
            count=LOGS,
            show=lambda case, found: different.append(f"{case}: {found}"),
        )
    with capsys.disabled():
        print(f" {tally} ", end="")
    assert not different, "\n".join(different)
    assert tally.counts["loaded twice by the real loader"] > LOGS // 6
    assert tally.counts["segments printed by the real dump-log"] > LOGS // 20


@pytest.mark.xdist_group("loader")
def test_a_file_that_the_real_loader_changes_is_reported(real_kafka, tmp_path):
    case = make_case(7, is_plain=True)._replace(imported={"prove": True})
    run_case(case, tmp_path / "x")
    directory = tmp_path / "x" / "new" / "t-0"
    with RealLoader(real_kafka.class_path) as real:
        assert load_differences(real, case, directory, tmp_path / "real") == []
        log = max(directory.glob("*.log"))
        log.write_bytes(log.read_bytes() + b"\0" * 3)
        assert "loaded after none" in " ".join(load_differences(real, case, directory, tmp_path / "real"))


def line_of(row):
    """As `served_lines` has it."""
    key, value = ("-" if field is None else field.hex() for field in (row.key, row.value))
    headers = " ".join(f"{name.decode()}={'-' if text is None else text.hex()}" for name, text in row.headers)
    return "\t".join(map(str, (row.offset, row.timestamp, key, value, headers)))


@pytest.mark.full
@pytest.mark.xdist_group("broker")
def test_a_broker_serves_randomly_made_imports(real_kafka, tmp_path):
    """Of topics that it made: each record of a random log, at its offset, and it goes on behind them."""
    class_path, wanted = real_kafka.broker_class_path, {}
    with broker(tmp_path, class_path) as one:
        one.start()
        with Client(one.address, class_path) as client:
            for topic in TOPICS:
                client.do("create", topic, **{"retention.ms": -1, "message.timestamp.after.max.ms": (1 << 63) - 1})
        one.stop()
        cases = (make_case(seed, is_plain=True) for seed in range(1000, 2000))
        for topic, case in zip(TOPICS, (case for case in cases if len(rows_of(case.partitions[0])) > 30), strict=False):
            scratch = new_log_dir(tmp_path / f"{topic}.new")
            assert not run_case(case, tmp_path / topic, scratch).different
            wanted[topic] = [line_of(row) for row in expected(case, case.partitions[0])]
            imported = {"topic": topic, "replace_empty": True, "config": case.config, **case.imported}
            import_into(one.data, tmp_path / topic / "out", **imported)
            shutil.rmtree(tmp_path / topic)
        one.start()
        with Client(one.address, class_path) as client:
            (tmp_path / "served").mkdir()
            served = served_lines(client, TOPICS, tmp_path / "served")
            told = complaints(one.log_entries(), TOPICS)
            for topic in TOPICS:
                client.do("produce", topic, count=4, per=2, seed=2, codec="none")
            (tmp_path / "after").mkdir()
            after = served_lines(client, TOPICS, tmp_path / "after")
        one.stop()
    assert sum(map(len, wanted.values())) > 500
    for topic in TOPICS:
        assert served[topic].uncommitted == served[topic].committed == wanted[topic], topic
        assert after[topic].uncommitted[: len(wanted[topic])] == wanted[topic]
        assert len(after[topic].uncommitted) == len(wanted[topic]) + 4
    assert {topic: text for topic, text in told.items() if text} == {}

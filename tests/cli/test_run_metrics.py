"""Every command that has --metrics writes all that it counted, in Prometheus' format."""

import pytest

from tests.support.commands import kafkalog, options_of, writable_copy
from tests.support.logs import BASE_TIME_MS
from tests.support.product import COMMANDS

NOW = ("--now", str(BASE_TIME_MS + 10**9), "--single-replica", "--config", f"segment.ms={2**62}")
COMMAND_LINES: dict[str, tuple[tuple, dict]] = {
    "append": (("append", "idem-0", "--input", "lines", *NOW), {"records": 2, "batches": 1}),
    "compact": (
        ("compact", "idem-0", "--force", *NOW[:2], "--config", "cleanup.policy=compact"),
        {"cleaned": 1, "bytes_read": None, "bytes_written": None, "records_gone": None},
    ),
    "delete-records": (("delete-records", "idem-0", "--before", "100", *NOW), {"removed_segments": 1}),
    "retain": (
        ("retain", "idem-0", *NOW[:2], "--config", "retention.bytes=1", "--config", "cleanup.policy=delete"),
        {"removed_segments": 2},
    ),
    "roll": (("roll", "idem-0", "--force", *NOW[:2]), {"rolled": 1}),
    "truncate": (("truncate", "idem-0", "--to", "100", *NOW[:3]), {"removed_segments": None, "cut_bytes": None}),
}


def test_each_command_with_metrics_has_a_case():
    assert {name for name in COMMANDS if "--metrics" in options_of(name)} == set(COMMAND_LINES)


@pytest.mark.parametrize("name", COMMAND_LINES)
def test_the_metrics_file_has_the_counts_of_the_run(corpus, tmp_path, name):
    writable_copy(corpus / "txn" / "data", tmp_path / "data")
    (verb, partition, *options), wanted = COMMAND_LINES[name]
    target = tmp_path / "run.prom"
    argv = (verb, tmp_path / "data" / partition, *options, "--metrics", target)
    code, _, err = kafkalog(*argv, stdin=b"a\nb\n")
    assert code == 0, err
    lines = [line.partition("{") for line in target.read_text().splitlines() if not line.startswith("#")]
    found = {left.removeprefix("kafkalog_last_run_"): float(rest.split()[-1]) for left, _, rest in lines}
    assert found["changed"] == 1
    assert found["exit_code"] == 0
    for what, count in wanted.items():
        assert found[what] == count if count is not None else found[what] > 0, (what, found)


def test_prometheus_reads_the_metrics_which_keep_their_mode_and_are_not_written_by_a_dry_run(corpus, tmp_path):
    parser = pytest.importorskip("prometheus_client.parser")
    root, target = writable_copy(corpus / "retention" / "before", tmp_path / "data"), tmp_path / "kafkalog.prom"
    argv = ("retain", root, "--now", "1795228795800", "--metrics", target)
    assert kafkalog(*argv, "--dry-run")[0] == 14
    assert not target.exists()
    kafkalog(*argv)
    assert target.stat().st_mode & 0o777 == 0o644
    target.chmod(0o640)
    kafkalog(*argv)
    assert target.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "kafkalog.prom"]
    families = list(parser.text_string_to_metric_families(target.read_text()))
    assert all(family.type == "gauge" and family.documentation for family in families)
    samples = {
        sample.name.removeprefix("kafkalog_last_run_"): sample for family in families for sample in family.samples
    }
    assert {tuple(sample.labels.items()) for sample in samples.values()} == {(("command", "retain"),)}
    assert (samples["failed_partitions"].value, samples["exit_code"].value) == (9, 14)
    assert "the metrics cannot be written" in kafkalog(*argv[:-1], tmp_path / "no" / "such" / "place.prom")[2]

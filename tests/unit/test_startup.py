"""What a start may import: a small dump must begin at once, --version sooner."""

from pathlib import Path

import pytest

from tests.support.commands import loaded_modules
from tests.support.coordinator_logs import commit, commit_key, commits, coordinator_partition_at

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "example" / "mixed-0"
HEAVY = {"numpy", "pyarrow", "rich", "zstandard", "lz4", "cramjam", "snappy", "isal"}


def modules_after(*argv):
    return loaded_modules(*argv)[2]


def top_level(modules):
    return {name.partition(".")[0] for name in modules}


def test_the_version_imports_nothing_heavy_and_no_command():
    modules = modules_after("--version")
    assert not top_level(modules) & HEAVY
    assert not modules & {"kafkalog_cli.cli.ls", "kafkalog_cli.cli.dump_log", "kafkalog_cli.cli.options"}


def test_a_small_dump_imports_nothing_heavy():
    modules = modules_after("dump-log", str(EXAMPLE / "00000000000000000000.log"))
    assert not top_level(modules) & {"numpy", "pyarrow", "rich"}


def test_a_small_read_imports_nothing_heavy():
    modules = modules_after("read", str(EXAMPLE), "--to-offset", "3")
    assert not top_level(modules) & {"numpy", "pyarrow", "rich"}
    assert not any(name.startswith("kafkalog_cli.library") for name in modules)


@pytest.mark.parametrize("command", [("groups",), ("groups", "--history"), ("transactions",)])
def test_a_small_log_of_a_coordinator_imports_nothing_heavy(tmp_path, command):
    coordinator_partition_at(tmp_path, 0, commits((commit_key("g"), commit(1))))
    modules = modules_after(*command, str(tmp_path))
    assert "kafkalog_cli.ops.cluster.coordinators" in modules
    assert not top_level(modules) & {"numpy", "pyarrow", "rich", "pyspark"}
    assert not any(name.startswith("kafkalog_cli.library") for name in modules)


def test_uncompressed_records_load_no_codec():
    modules = modules_after("dump-log", str(EXAMPLE / "00000000000000000000.index"))
    assert not top_level(modules) & HEAVY


def test_only_the_command_that_is_called_is_imported():
    modules = modules_after("dump-log", str(EXAMPLE))
    assert "kafkalog_cli.cli.dump_log" in modules
    assert "kafkalog_cli.cli.ls" not in modules


def test_a_small_dump_imports_no_numpy():
    modules = modules_after("dump-log", "--deep-iteration", str(EXAMPLE / "00000000000000000000.log"))
    assert "kafkalog_cli.log.reading.records" in modules
    assert "numpy" not in top_level(modules)


def test_verify_of_a_sound_log_imports_no_loader():
    """A step for a stray directory once imported all of recover, a fifth of the start."""
    modules = modules_after("verify", str(EXAMPLE))
    assert "kafkalog_cli.ops.check.verify.partition" in modules
    others = ("kafkalog_cli.broker", "kafkalog_cli.ops.check.recover")
    assert not [name for name in modules if name.startswith(others)]


def test_a_dump_imports_nothing_that_changes_logs_or_decodes_values():
    """The options of value formats once imported it all, 40 % of the instructions of a small dump."""
    modules = modules_after("dump-log", "--print-data-log", str(EXAMPLE / "00000000000000000000.log"))
    assert "kafkalog_cli.ops.decoding" in modules
    others = (
        "kafkalog_cli.change",
        "kafkalog_cli.ops.values",
        "kafkalog_cli.ops.look.read",
        "kafkalog_cli.ops.look.listing",
        "kafkalog_cli.output.ndjson",
        "kafkalog_cli.output.dump_sidecars",
    )
    assert not {name for name in modules if name.startswith(others)}


WORKERS = {
    "verify": "ops.check.verify.verify",
    "recover": "ops.check.recover.recover",
    "compact": "ops.change.compact.verb",
}


@pytest.mark.parametrize("command", WORKERS)
def test_the_local_engine_imports_nothing_of_spark(command):
    more = [] if command == "verify" else ["--dry-run"]
    modules = modules_after(command, str(EXAMPLE), *more)
    assert f"kafkalog_cli.{WORKERS[command]}" in modules
    assert not top_level(modules) & {"pyspark", "py4j", "pyarrow"}
    assert not any(name.startswith("kafkalog_cli.spark") for name in modules)

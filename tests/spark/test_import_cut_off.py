"""Imports that are cut off after their commit, on a real disk: what is told of them, and how they come to their end."""

import shutil

import pytest

import kafkalog_cli as kl
from tests.spark.exporting import export
from tests.spark.importing import import_into, new_log_dir, records, seen
from tests.spark.test_spark_rows import log_dir
from tests.support.logs import BASE_TIME_MS, R, batch_v2
from tests.support.product import HalfPublished, RealFilesystem, is_staged, staged_name
from tests.support.watched_fs import FailingFilesystem


class NoRename(FailingFilesystem):
    """No partition but the first comes to its place."""

    def __init__(self):
        super().__init__(RealFilesystem(), "EIO", -1)

    def rename(self, path, to):
        if to.endswith("-1"):
            raise OSError(5, "no", path)
        return super().rename(path, to)


@pytest.fixture
def cut_off(tmp_path):
    """The log directory, and what it was imported from."""
    for number in range(3):
        folder = log_dir(
            tmp_path / "log", batch_v2([R(i, BASE_TIME_MS, b"k", b"v") for i in range(5)]), partition=number
        )
    export(folder, tmp_path / "out")
    new = new_log_dir(tmp_path / "new")
    with pytest.raises(HalfPublished):
        import_into(new, tmp_path / "out", fs=NoRename())
    assert [name for name in seen(new) if not is_staged(name)] == [".kafkalog-import", "orders-0"]
    return new, tmp_path / "out"


def findings(new):
    found = [one for result in kl.verify(new).results for one in result.findings]
    return {one.kind.value: one.message for one in found}


def test_verify_reports_a_cut_off_import_with_its_input(cut_off):
    new, out = cut_off
    message = findings(new)["import-cut-off"]
    assert message == f"an import of {out} was cut off after its commit; still to come: orders-1, orders-2"


def test_the_same_command_goes_on_though_its_input_is_gone(cut_off):
    new, out = cut_off
    shutil.rmtree(out)
    result = import_into(new, out)
    assert result.completed.placed == ("orders-0", "orders-1", "orders-2")
    assert result.plan is None
    assert seen(new) == ["orders-0", "orders-1", "orders-2"]
    assert len(records(new / "orders-2")) == 5
    assert "import-cut-off" not in findings(new)


def test_verify_does_not_read_a_staged_partition_of_no_committed_import(cut_off):
    new, _ = cut_off
    stale = staged_name("orders", 9, "another", "0")
    shutil.copytree(new / "orders-0", new / stale)
    log = new / stale / f"{0:020d}.log"
    log.write_bytes(log.read_bytes() + b"torn")
    told = findings(new)
    assert "import-staged" in told
    assert "torn-tail" not in told

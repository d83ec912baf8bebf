"""`export` and `import` on a machine without PySpark and Java."""

import sys
from pathlib import Path

import pytest

from tests.support.commands import kafkalog

pytest.importorskip("pyarrow", reason="the extra `arrow` is not installed: nothing is exported")

EXAMPLE = Path(__file__).parents[2] / "docs" / "example"


@pytest.mark.parametrize("form", ["parquet", "arrow", "json"])
def test_files_are_written_and_read_without_pyspark_and_java(tmp_path, monkeypatch, form):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    out, new = tmp_path / "out", tmp_path / "new"
    new.mkdir()
    (new / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    code, said, errors = kafkalog("export", EXAMPLE, "--topic", "mixed", "--output", out, "--format", form)
    assert (code, errors, said.partition(",")[0]) == (0, "", "mixed: 250 records of 2 partitions in 2 files")
    code, said, _ = kafkalog("import", out, "--log-dir", new, "--prove", "--now", "2023-11-15")
    assert (code, said.count("read back the same")) == (0, 2)

"""Values that are too large for Parquet: an export of all topics does not end, and import takes what it wrote."""

import os

import pytest

from tests.spark.exporting import export, files, pq, table
from tests.spark.importing import import_into, new_log_dir, records
from tests.support.logs import BASE_TIME_MS, R, batch_v2
from tests.support.product import ExitCode
from tests.support.product_spark import FileFormat

pytestmark = pytest.mark.exhaustive

MEBIBYTE = 1 << 20


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Topics before and after the topic that has values of 17 and 25 MiB and a key of 17 MiB."""
    folder, noise = tmp_path_factory.mktemp("large") / "logs", os.urandom(MEBIBYTE)
    large = [
        (b"k", b"v"),
        (b"k", noise * 17),
        (b"k", None),
        (b"a" * 17 * MEBIBYTE, b"v"),
        (None, noise * 25),
        (b"k", b"v"),
    ]
    for topic, rows in (("first", [(b"k", b"v")]), ("large", large), ("last", [(b"k", b"v")] * 2)):
        (folder / f"{topic}-0").mkdir(parents=True)
        parts = [batch_v2([R(at, BASE_TIME_MS + at, *row)]) for at, row in enumerate(rows)]
        (folder / f"{topic}-0" / f"{0:020d}.log").write_bytes(b"".join(parts))
    return folder


@pytest.mark.parametrize("file_format", FileFormat)
def test_import_takes_what_export_wrote(logs, tmp_path, file_format):
    codec = file_format.codecs[0]
    result = export(logs, tmp_path / "out", format=file_format, codec=codec)
    assert {name.split("/")[0] for name in files(tmp_path / "out")} == {"topic=first", "topic=large", "topic=last"}
    assert [note.kind for note in result.notes] == (["large-value"] if file_format is FileFormat.PARQUET else [])
    new = new_log_dir(tmp_path / "new")
    import_into(new, tmp_path / "out", prove=True, codec=None)
    for topic in ("first", "large", "last"):
        assert records(new / f"{topic}-0") == records(logs / f"{topic}-0")


@pytest.mark.parametrize("by_day", [False, True])
def test_import_takes_records_whose_line_would_be_too_long(tmp_path, by_day):
    """Bytes in base64, and control characters, of which each is six characters of JSON."""
    logs = tmp_path / "logs"
    values = [b"v", b"\xff" * 50 * MEBIBYTE, b"v", b"\1" * 11 * MEBIBYTE, b"\xff" * 47 * MEBIBYTE]
    (logs / "t-0").mkdir(parents=True)
    rows = [batch_v2([R(at, BASE_TIME_MS + at, b"k", value)]) for at, value in enumerate(values)]
    (logs / "t-0" / f"{0:020d}.log").write_bytes(b"".join(rows))
    result = export(logs, tmp_path / "out", format=FileFormat.JSON, codec="none", by_day=by_day)
    (large,) = [name for name in files(tmp_path / "out") if "/_" in name]
    assert large.endswith("_00000-00000000000000000001.large.arrow")
    (note,) = result.notes
    assert "2 records from offset 1 on with more than 64 MiB in a line: in the Arrow file topic=t" in note.message
    assert result.exit_code is ExitCode.WARNINGS
    new = new_log_dir(tmp_path / "new")
    import_into(new, tmp_path / "out", prove=True, codec=None)
    assert records(new / "t-0") == records(logs / "t-0")


@pytest.mark.parametrize("by_day", [False, True])
def test_readers_of_parquet_see_all_other_records(logs, tmp_path, by_day):
    """As Spark, pyarrow and DuckDB do, which skip names that begin with `_`."""
    result = export(logs, tmp_path / "out", format=FileFormat.PARQUET, codec="snappy", by_day=by_day)
    found = (
        table(tmp_path / "out").filter(pq.filters_to_expression([("topic", "=", "large")])).column("offset").to_pylist()
    )
    assert found == [0, 2, 5]
    (large,) = [name for name in files(tmp_path / "out") if "/_" in name]
    assert large.endswith("_00000-00000000000000000001.large.arrow")
    (note,) = result.notes
    assert "3 records from offset 1 on with more than 16 MiB in a key or value" in note.message
    assert result.exit_code is ExitCode.WARNINGS

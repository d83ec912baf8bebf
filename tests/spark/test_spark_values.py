"""Decoded keys and values in `export` and `sql`: what `read` prints of the same records."""

import json

import pytest

from tests.cli.test_read_values import log_dir, partition, registered
from tests.cli.test_values_everywhere import orders, plain, read
from tests.spark.exporting import export, files, table
from tests.spark.querying import kafkalog, rows
from tests.spark.spark_reading import rows as source_rows
from tests.spark.spark_reading import subset
from tests.support.logs import R
from tests.support.product import ExitCode
from tests.support.product_spark import Decoding, FileFormat, ValueFormat
from tests.unit.test_decoded_values import BLOCKS, avro_cases, same

__all__ = ["log_dir", "orders"]

AUTO = Decoding(ValueFormat.STRING, ValueFormat.AUTO)


@pytest.mark.parametrize("file_format", [FileFormat.PARQUET, FileFormat.ARROW])
def test_export_writes_decoded_values_as_json_columns(orders, tmp_path, file_format):
    result = export(orders.root, tmp_path / "out", format=file_format, codec=file_format.codecs[0], decoding=AUTO)
    assert result.exit_code is ExitCode.WARNINGS
    assert any("not decoded" in note.message for note in result.notes)
    found = [row for row in table(tmp_path / "out", file_format).to_pylist() if row["topic"] == "orders"]
    decoded = {200 * row["partition"] + row["offset"]: row["value_json"] for row in found}
    assert {offset: plain(json.loads(one)) for offset, one in decoded.items() if one} == orders.wanted
    assert {row["key_json"] for row in found} == {f'"k{number}"' for number in range(5)}


def test_export_writes_decoded_values_into_json_lines(orders, tmp_path):
    export(orders.root / "orders-0", tmp_path / "out", format=FileFormat.JSON, codec="none", decoding=AUTO)
    (name,) = files(tmp_path / "out")
    lines = [json.loads(line) for line in (tmp_path / "out" / name).read_text().splitlines()]
    data, errors = read(orders.root / "orders-0")
    decoded = {line["offset"]: line["decoded"].get("value", {}) for line in lines}
    assert {offset: one["data"] for offset, one in decoded.items() if "data" in one} == data
    assert {offset for offset, one in decoded.items() if "error" in one} == errors


def test_without_formats_nothing_is_decoded(orders, tmp_path):
    export(orders.root, tmp_path / "out")
    assert not {"key_json", "value_json"} & {*table(tmp_path / "out").column_names}


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.usefixtures("spark")
def test_sql_has_decoded_values_as_json(orders, log_dir, tmp_path):
    found = rows(
        orders.root,
        "select partition, offset, value_json from orders where value_json is not null",
        some_undecoded=True,
    )
    assert {200 * number + offset: plain(json.loads(one)) for number, offset, one in found} == orders.wanted
    ids = rows(
        orders.root, "select count(*) from orders where get_json_object(value_json, '$.id') = '17'", some_undecoded=True
    )
    assert ids == [(sum(one["id"] == 17 for one in orders.wanted.values()),)]
    variant = "select sum(variant_get(parse_json(value_json), '$.id', 'int')) from orders where value_json is not null"
    assert rows(orders.root, variant, some_undecoded=True) == [(sum(one["id"] for one in orders.wanted.values()),)]
    texts = rows(log_dir, "select key_json, value_json from views", "--value-format", "json", "--key-format", "string")
    assert texts == [(None, '{"n":1}')]
    assert rows(log_dir, "select value_json from orders", "--schemas", tmp_path / "logs", "--value-format", "avro")
    assert len(rows(log_dir, "select * from orders limit 1")[0]) == len(rows(log_dir, "select * from views limit 1")[0])
    code, _, err = kafkalog(
        "export", log_dir, "--output", tmp_path / "out", "--value-format", "avro", "--topic", "orders"
    )
    assert (code, err) == (0, "")
    values = {json.loads(row["value_json"])["id"] for row in table(tmp_path / "out").to_pylist() if row["value_json"]}
    assert values == {7, 8}


@pytest.mark.exhaustive
@pytest.mark.parametrize("block", range(BLOCKS))
def test_find_export_and_sql_decode_as_confluents_deserialiser(block, tmp_path, evidence):
    """Random schemas with references and evolution, all in one log. The rows of `sql` are those of the source."""
    cases = list(avro_cases(block))
    evidence("R63", len(cases), BLOCKS)
    schemas = dict.fromkeys(schema for _, held, *_ in cases for schema in held)
    root = tmp_path / "logs"
    partition(root / "_schemas-0", [
        registered(offset, one.subject, one.version, one.schema_id, one.text, references=[
            {"name": other.name, "subject": other.subject, "version": other.version} for other in one.references])
        for offset, one in enumerate(schemas)
    ])  # fmt: skip
    partition(root / "orders-0", [R(offset, 1, None, bytes(data)) for offset, (_, _, data, *_) in enumerate(cases)])
    code, out, err = kafkalog("find", root, "--topic", "orders", "--value-format", "auto", "--format", "json")
    assert (code, err) == (0, "")
    found = [json.loads(line)["decoded"]["value"]["data"] for line in out.splitlines()[:-1]]
    decoding = Decoding(None, ValueFormat.AUTO)
    export(root, tmp_path / "out", format=FileFormat.ARROW, codec="none", decoding=decoding)
    exported = [row for row in table(tmp_path / "out", FileFormat.ARROW).to_pylist() if row["topic"] == "orders"]
    read = source_rows(root, subset("offset", "value_json"), subscribe="orders").to_pylist()
    for offset, (seed, _, _, theirs, schema, types) in enumerate(cases):
        assert same(found[offset], theirs, schema, types), (seed, found[offset], theirs)
        for rows_of_columns in (exported, read):
            assert rows_of_columns[offset]["offset"] == offset
            assert json.loads(rows_of_columns[offset]["value_json"]) == found[offset], seed

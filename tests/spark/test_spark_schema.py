"""The columns: those of Spark's Kafka source, the same to Spark and to Arrow; a user's schema is some of them."""

import pytest

from tests.spark.spark_reading import source, subset, to_arrow_schema, types
from tests.support.product import UsageError
from tests.support.product_spark import BY_NAME, arrow_schema, columns_named, spark_schema

OF_NAME_ONLY = ("key_size", "value_size", "key_text", "value_text", "key_json", "value_json")
KAFKA = "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int"


def test_the_spark_schema_is_the_arrow_schema():
    for names in (list(BY_NAME), ["offset"], ["_fault", "headers"], ["_records"]):
        columns = columns_named(names)
        assert to_arrow_schema(spark_schema(columns), timezone="UTC").equals(arrow_schema(columns), check_metadata=True)
        assert all(field.nullable for field in spark_schema(columns).fields)


def test_equal_rows_with_headers_are_not_counted():
    with pytest.raises(UsageError, match="the column _records is not beside headers or structs"):
        columns_named(["_records", "headers"])


def test_the_data_source_has_the_columns_of_sparks_kafka_source():
    assert source("x").schema().simpleString() == KAFKA + ">"
    headers = ",headers:array<struct<key:string,value:binary>>"
    assert source("x", includeHeaders="true").schema().simpleString() == KAFKA + headers + ">"
    assert source("x", mode="PERMISSIVE").schema().simpleString() == KAFKA + ",_fault:string>"
    more = source("x", includeBatchMetadata="true", includeHeaders="true", mode="permissive").schema()
    assert more.names == [name for name in BY_NAME if name not in OF_NAME_ONLY]
    assert source("x", columns="_records").schema().simpleString() == "struct<_records:bigint>"
    assert source("x", columns="value, offset").schema().names == ["value", "offset"]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (
            types.StructType([types.StructField("colour", types.StringType())]),
            "there is no column colour; there are key, value",
        ),
        (
            types.StructType([types.StructField("key", types.StringType())]),
            "column key is binary, which may be null; not string",
        ),
        (
            types.StructType([types.StructField("offset", types.LongType(), False)]),
            "column offset is bigint, .* not bigint not null",
        ),
        (
            types.StructType(
                [types.StructField("key", types.BinaryType()), types.StructField("key", types.BinaryType())]
            ),
            "each column once",
        ),
        (types.StructType([]), "at least one; not none"),
        (subset("offset", "_fault"), "the column _fault exists only with option"),
    ],
)
def test_a_schema_that_does_not_fit(schema, message):
    with pytest.raises(UsageError, match=message):
        source("x").reader(schema)


def test_mode_permissive_requires_the_column_fault():
    for given in ({"columns": "offset"}, {}):
        with pytest.raises(UsageError, match="mode permissive reports damage in the column _fault"):
            source("x", mode="permissive", **given).reader(subset("offset"))
    assert source("x", mode="permissive").reader(subset("_fault", "offset")) is not None

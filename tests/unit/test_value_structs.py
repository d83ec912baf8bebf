"""The columns key_struct and value_struct: evolved values against fastavro, which resolves schemas by itself."""

import io
import json
import struct
from datetime import datetime, timezone
from decimal import Decimal

import pytest

from kafkalog_cli.format.values.avro_value import AvroNames
from kafkalog_cli.format.values.decoder import DecodedContents, Undecoded, ValueDecoder
from kafkalog_cli.format.values.schema_set import SchemaSet, StoredSchema
from kafkalog_cli.format.values.value_format import ValueFormat
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.ops.decoding import Decoding
from kafkalog_cli.ops.scans.schema import STRUCT_COLUMNS, arrow_of
from kafkalog_cli.ops.scans.structs.avro import MOST_CELLS, AvroShape
from kafkalog_cli.ops.scans.structs.columns import StructColumn, StructTypes
from kafkalog_cli.ops.scans.structs.protobuf import ProtobufShape
from kafkalog_cli.spark.queries.query import sql
from tests.cli.test_read_values import framed, log_dir, partition, registered
from tests.spark.querying import rows
from tests.support.commands import kafkalog
from tests.support.logs import R
from tests.support.product import KafkalogError, RealFilesystem, UsageError
from tests.unit.test_decoded_values import Random, types_of

__all__ = ["log_dir"]

pa = pytest.importorskip("pyarrow")
fastavro = pytest.importorskip("fastavro")
BLOCKS, CASES = 50, 100

LOGICAL = {
    "date": ("int", lambda draw: draw.randrange(-700_000, 2_900_000)),
    "timestamp-millis": ("long", lambda draw: draw.randrange(-62_000_000_000_000, 250_000_000_000_000)),
    "timestamp-micros": ("long", lambda draw: draw.randrange(-62_000_000_000_000_000, 250_000_000_000_000_000)),
    "local-timestamp-millis": ("long", lambda draw: draw.randrange(-62_000_000_000_000, 250_000_000_000_000)),
    "local-timestamp-micros": ("long", lambda draw: draw.randrange(-62_000_000_000_000_000, 250_000_000_000_000_000)),
    "decimal": (
        "bytes",
        lambda draw: draw.randrange(-(10**9), 10**9).to_bytes(draw.randrange(4, 9), "big", signed=True),
    ),
}
DEFAULTS = [("int", 7), ("string", "new"), (["null", "long"], None), ({"type": "array", "items": "string"}, ["a"]),
            ({"type": "map", "values": "double"}, {"k": 0.5}), (["string", "null"], "x"),
            ("float", 0.1), ("boolean", True)]  # fmt: skip


class Evolving(Random):
    """Random schemas with logical types, and later versions of them."""

    def schema(self, depth, known):
        if self.random.random() < 0.15:
            name = self.random.choice(list(LOGICAL))
            more = {"precision": 9, "scale": 2} if name == "decimal" else {}
            return {"type": LOGICAL[name][0], "logicalType": name, **more}
        found = super().schema(depth, known)
        if isinstance(found, list):  # in a union, fastavro takes a wider type that comes first, and Java the same type
            found = [one for one in found if one not in ("double", "bytes")] or ["null"]
        return found

    def value(self, schema, types):
        if isinstance(schema, dict) and "logicalType" in schema:
            return LOGICAL[schema["logicalType"]][1](self.random)
        return super().value(schema, types)

    def later(self, schema):
        """A version of a schema that reads its values."""
        draw = self.random
        if isinstance(schema, list):
            more = [one for one in ("string", "boolean", "null", "double") if one not in schema]
            return [*draw.sample(schema, len(schema)), *more[: draw.randrange(3)]]
        if isinstance(schema, str):
            wider = {"int": ["long", "double"], "long": ["double"], "float": ["double"], "string": ["bytes"]}
            found = draw.choice([schema, *wider.get(schema, ())])
            return ["null", found] if draw.random() < 0.2 and found != "null" else found
        if "logicalType" in schema:
            return schema
        inner = {key: self.later(schema[key]) for key in ("items", "values") if key in schema}
        if schema["type"] == "record":
            kept = [one for one in schema["fields"] if not (isinstance(one["type"], str) and draw.random() < 0.2)]
            fields = [{**one, "type": self.later(one["type"])} for one in kept]
            for one in fields:
                if draw.random() < 0.1:
                    one["name"], one["aliases"] = f"{one['name']}_new", [one["name"]]
            for number in range(draw.randrange(3)):
                kind, default = draw.choice(DEFAULTS)
                fields.insert(draw.randint(0, len(fields)), {"name": f"d{number}", "type": kind, "default": default})
            inner["fields"] = fields
        if schema["type"] == "enum":
            gone = draw.random() < 0.3
            inner |= {"symbols": ["B", "A"], "default": "A"} if gone else {"symbols": ["D", *schema["symbols"]]}
        return {**schema, **inner}


PYTHON = {"boolean": bool, "int": int, "long": int, "float": float, "double": float, "bytes": bytes, "string": str,
          "record": dict, "array": list, "map": dict}  # fmt: skip


def naive(value, schema, types):
    """What Spark has for a value that fastavro returned."""
    if isinstance(schema, str) and schema in types:
        schema = types[schema]
    if isinstance(schema, list):
        parts = [one for one in schema if one != "null"]
        if value is None or len(parts) == 1:
            return None if value is None else naive(value, parts[0], types)
        kinds = [one if isinstance(one, str) else one["type"] for one in parts]
        at = next(number for number, kind in enumerate(kinds) if type(value) is PYTHON[kind])
        members = {f"member{number}": None for number in range(len(parts))}
        return {**members, f"member{at}": naive(value, parts[at], types)}
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind == "record":
        return {one["name"]: naive(value[one["name"]], one["type"], types) for one in schema["fields"]}
    if kind == "array":
        return [naive(one, schema["items"], types) for one in value]
    if kind == "map":
        return [(key, naive(one, schema["values"], types)) for key, one in value.items()]
    if kind == "float":
        return struct.unpack("<f", struct.pack("<f", value))[0]
    return float(value) if kind == "double" else value


@pytest.mark.exhaustive
@pytest.mark.parametrize("block", range(BLOCKS))
def test_evolved_values_are_those_of_fastavro(block, evidence):
    evidence("R62", CASES, BLOCKS)
    for seed in range(block * CASES, (block + 1) * CASES):
        source = Evolving(seed)
        first = source.record(3, [])
        later = source.later(first)
        types = types_of(first, {})
        values = [source.value(first, types) for _ in range(3)]
        theirs, ours = [], []
        shape = AvroShape(AvroNames().parse(json.dumps(later)))
        writer = AvroNames().parse(json.dumps(first))
        for value in values:
            out = io.BytesIO()
            fastavro.schemaless_writer(out, first, value)
            data = out.getvalue()
            theirs.append(fastavro.schemaless_reader(io.BytesIO(data), first, later))
            ours.append(shape.read(writer, (), memoryview(data)))
        column = STRUCT_COLUMNS[1]._replace(spark=shape.type)
        found = pa.array(ours, arrow_of(column.spark))
        found.validate(full=True)
        wanted = repr([naive(one, later, types_of(later, {})) for one in theirs])
        assert repr(found.to_pylist()).replace("zoneinfo.ZoneInfo(key='UTC')", "datetime.timezone.utc") == wanted, seed


def shape_of(*fields, references=()):
    names = AvroNames()
    for one in references:
        names.parse(json.dumps(one))
    return AvroShape(names.parse(json.dumps({"type": "record", "name": "R", "fields": fields})))


def field(name, kind, **more):
    return {"name": name, "type": kind, **more}


def kinds(shape):
    return {one["name"]: (one["type"], one["nullable"]) for one in shape.type["fields"]}


def test_types_are_those_of_sparks_avro_source():
    shape = shape_of(
        field("a", ["null", "int"]), field("b", ["int", "long"]), field("c", ["null", "float", "double"]),
        field("d", {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 6}),
        field("e", {"type": "bytes", "logicalType": "decimal", "precision": 39}),
        field("f", {"type": "long", "logicalType": "time-micros"}), field("g", "null"),
        field("h", ["string", "null", "int"]), field("i", {"type": "map", "values": ["null", "string"]}),
        field("j", {"type": "array", "items": {"type": "enum", "name": "E", "symbols": ["A"]}}),
        field("k", {"type": "fixed", "name": "F", "size": 12, "logicalType": "duration"}), field("l", ["E"]),
    )  # fmt: skip
    either = [{"name": f"member{at}", "type": kind, "nullable": True, "metadata": {}}
              for at, kind in enumerate(("string", "integer"))]  # fmt: skip
    assert kinds(shape) == {
        "a": ("integer", True), "b": ("long", False), "c": ("double", True), "d": ("decimal(38,6)", False),
        "e": ("binary", False), "f": ("long", False), "g": ("void", True),
        "h": ({"type": "struct", "fields": either}, True),
        "i": ({"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}, False),
        "j": ({"type": "array", "elementType": "string", "containsNull": False}, False), "k": ("binary", False),
        "l": ("string", False),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ([field("next", ["null", "R"])], "the type R contains itself"),
        ([field("a", "int"), field("A", "int")], "the same name"),
        ([field("a b", "int")], "not a name of a field"),
        ([field(f"f{number}", "int") for number in range(4000)], "more than 4000 fields"),
    ],
)
def test_schemas_that_are_no_type_of_spark(fields, reason):
    with pytest.raises(ValueError, match=reason):
        shape_of(*fields)


def evolved(writer, reader, data):
    return shape_of(field("x", reader, default=None)).read(
        AvroNames().parse(json.dumps({"type": "record", "name": "R", "fields": [field("x", writer)]})), (),
        memoryview(data),
    )["x"]  # fmt: skip


def enum(*symbols, **more):
    return {"type": "enum", "name": "E", "symbols": symbols, **more}


@pytest.mark.parametrize(
    ("writer", "reader", "data", "wanted"),
    [
        ("long", ["double", "long"], b"\x02", {"member1": 1}),  # as Java: the same type before a wider type
        ("bytes", "string", b"\x04\xc3\xa9", "\u00e9"),
        ("string", "bytes", b"\x04\xc3\xa9", b"\xc3\xa9"),
        ("bytes", "string", b"\x02\xff", ValueError("can't decode byte")),
        ("float", "double", struct.pack("<f", 0.1), struct.unpack("<f", struct.pack("<f", 0.1))[0]),
        (enum("A", "B"), enum("A"), b"\x02", ValueError("is not a symbol of E")),
        (enum("A", "B"), enum("A", default="A"), b"\x02", "A"),
        (["string", "int"], "int", b"\x02\x04", 2),
        (["string", "int"], "int", b"\x00\x02a", ValueError("string of the writer's schema is not int")),
        ("long", "int", b"\x02", ValueError("long of the writer's schema is not int")),
        ({"type": "long", "logicalType": "timestamp-micros"}, "long", b"\x02", 1),
        ("long", {"type": "long", "logicalType": "timestamp-millis"}, b"\x02", 1000),
        (
            "long",
            {"type": "long", "logicalType": "timestamp-millis"},
            b"\xfe" + b"\xff" * 8 + b"\x01",
            ValueError("beyond the year 294247"),
        ),
        (
            "bytes",
            {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1},
            b"\x04\x03\xe7",
            Decimal("99.9"),
        ),
        (
            "bytes",
            {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1},
            b"\x04\x03\xe8",
            ValueError("more than 3 digits"),
        ),
    ],
)
def test_avro_types_resolve_as_the_specification_says(writer, reader, data, wanted):
    if isinstance(wanted, ValueError):
        with pytest.raises(ValueError, match=str(wanted)):
            evolved(writer, reader, data)
    else:
        assert evolved(writer, reader, data) == wanted


def test_missing_avro_fields_have_their_defaults():
    inner = {"type": "record", "name": "I", "fields": [field("s", "string"), field("n", "int", default=3)]}
    shape = shape_of(
        field("b", "bytes", default="\u00ff"),
        field("i", inner, default={"s": "x"}),
        field("u", ["null", "I"], default=None),
    )
    empty = AvroNames().parse('{"type":"record","name":"R","fields":[]}')
    assert shape.read(empty, (), memoryview(b"")) == {"b": b"\xff", "i": {"s": "x", "n": 3}, "u": None}


def test_defaults_of_many_records_are_bounded():
    """A value of 5 bytes may be 100,000 records, each of which has all fields of a later version."""
    small = {"type": "record", "name": "S", "fields": []}
    large = {**small, "fields": [field(f"f{number}", ["null", "int"], default=None) for number in range(300)]}
    writer = AvroNames().parse(json.dumps({"type": "array", "items": small}))
    shape = AvroShape(AvroNames().parse(json.dumps({"type": "array", "items": large})))
    count = 100_000
    assert count * 300 > MOST_CELLS
    with pytest.raises(ValueError, match="more than 4000000 fields"):
        shape.read(writer, (), memoryview(b"\xc0\x9a\x0c\x00"))


PROTO = """syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";
message Click { int64 at = 1; string page_name = 2; %s }
message Other { int64 at = 1; }"""
LATER = """optional uint32 port = 3; uint64 size = 4; repeated Part parts = 5; map<string, double> rates = 6; Colour colour = 7;
google.protobuf.Timestamp seen = 8; oneof one { bytes raw = 9; bool is = 10; }
message Part { string name = 1; } enum Colour { RED = 0; BLUE = 1; }"""


def test_protobuf_messages_become_structs_with_the_fields_of_all_versions():
    first, later = (StoredSchema("PROTOBUF", PROTO % more, (), number, None, "clicks-value", number)
                    for number, more in enumerate(("", LATER), start=1))  # fmt: skip
    schemas = SchemaSet()
    schemas.add(first)
    schemas.add(later)
    decoder = ValueDecoder(schemas, None, ValueFormat.AUTO)
    shape = ProtobufShape(decoder.reader(later))
    message = decoder.reader(later)._class((0,))(
        at=5, page_name="x", port=(1 << 32) - 1, size=(1 << 64) - 1, parts=[{"name": "p"}], rates={"k": 0.5}, colour=7,
        seen=datetime(2026, 1, 2, tzinfo=timezone.utc), raw=b"\xff",
    )  # fmt: skip
    column = STRUCT_COLUMNS[1]._replace(spark=shape.type)
    read = decoder.in_shape(shape).value
    values = [
        framed(1, b"\0\x08\x05\x12\x01x"),
        framed(2, b"\0" + message.SerializeToString()),
        framed(2, b"\x02\x02\x08\x05"),
    ]
    found = [read("clicks", memoryview(one), None) for one in values]
    assert isinstance(found[2], Undecoded)
    assert found[2].reason == "it is a message shop.Other, not shop.Click"
    empty = {
        "port": None,
        "size": Decimal(0),
        "parts": [],
        "rates": [],
        "colour": "RED",
        "seen": None,
        "raw": None,
        "is": None,
    }
    rest = {"port": (1 << 32) - 1, "size": Decimal((1 << 64) - 1), "parts": [{"name": "p"}], "rates": [("k", 0.5)],
            "colour": "7", "seen": datetime(2026, 1, 2, tzinfo=timezone.utc), "raw": b"\xff", "is": None}  # fmt: skip
    array = pa.array([one.value for one in found if isinstance(one, DecodedContents)], arrow_of(column.spark))
    assert array.to_pylist() == [{"at": 5, "page_name": "x", **empty}, {"at": 5, "page_name": "x", **rest}]
    nullable = {one["name"] for one in shape.type["fields"] if one["nullable"]}
    assert nullable == {"port", "seen", "raw", "is"}


def test_a_column_of_a_type_that_no_schema_has():
    schemas = SchemaSet()
    schemas.add(StoredSchema("AVRO", '"int"', (), 1, None, "orders-value", 1))
    schemas.add(StoredSchema("AVRO", '"long"', (), 2, None, "orders-value", 2))
    decoder = ValueDecoder(schemas, None, ValueFormat.AUTO)
    batch = pa.RecordBatch.from_pydict(
        {"value": [framed(1, b"\x02"), None, framed(2, b"\x02"), b"x"], "headers": [[]] * 4, "offset": [0, 1, 2, 3]}
    )
    older, newer = (
        StructColumn(decoder, "orders", STRUCT_COLUMNS[1]._replace(spark=kind)) for kind in ("integer", "long")
    )
    assert newer.values(batch).to_pylist() == [1, None, 1, None]
    assert older.values(batch).to_pylist() == [1, None, None, None]  # a long is no int
    with pytest.raises(KafkalogError, match="no schema of orders-value has the type"):
        StructColumn(decoder, "orders", STRUCT_COLUMNS[1]._replace(spark="string"))


WORDS = {"type": "record", "name": "W", "fields": [
    field("select", "int"), field("timestamp", {"type": "long", "logicalType": "timestamp-millis"}),
    field("empty", {"type": "record", "name": "Empty", "fields": []}), field("end", ["null", "string", "int"]),
    field("day", {"type": "int", "logicalType": "date"}), field("order", {"type": "map", "values": ["null", "float"]}),
    field("price", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
]}  # fmt: skip


@pytest.fixture
def shop(log_dir):
    """The log directory with a third version of orders, whose note has a default, and a topic of many types."""
    schemas = log_dir / "more"
    order = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},{"name":"to","type":{"type":"record","name":"Address","fields":[{"name":"town","type":"string"}]}},{"name":"note","type":["null","string"],"default":null}]}'
    address = '{"type":"record","name":"Address","namespace":"shop","fields":[{"name":"town","type":"string"}]}'
    reference = [{"name": "shop.Address", "subject": "address", "version": 1}]
    old = '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"},{"name":"to","type":"Address"}]}'
    partition(schemas / "_schemas-0", [
        registered(0, "address", 1, 1, address), registered(1, "orders-value", 1, 2, old, references=reference),
        registered(2, "orders-value", 2, 3, order), registered(3, "clicks-value", 1, 4, PROTO % LATER, schemaType="PROTOBUF"),
        registered(4, "views-value", 1, 5, '{"type":"object"}', schemaType="JSON"),
        registered(5, "words-value", 1, 6, json.dumps(WORDS)),
    ])  # fmt: skip
    word = b"\x02" + b"\x02" + b"\x02\x02a" + b"\x02" + b"\x02\x02k\x02" + struct.pack("<f", 0.5) + b"\0" + b"\x02\x7f"
    partition(
        log_dir / "words-0", [R(0, 1, b"k", framed(6, word)), R(1, 2, b"k", framed(6, b"\x02")), R(2, 2, None, b"x")]
    )
    return log_dir


def test_the_schemas_of_a_topic_are_read_once(shop, monkeypatch):
    fs, reads, real = RealFilesystem(), [], Decoding.decoder
    monkeypatch.setattr(Decoding, "decoder", lambda *given: reads.append(given) or real(*given))
    decoding = Decoding(ValueFormat.AUTO, ValueFormat.AUTO, str(shop / "more"))
    types = StructTypes(fs, decoding, [open_partition(fs, str(shop / "orders-0"))])
    key, value = STRUCT_COLUMNS
    with pytest.raises(UsageError, match="there is no schema orders-key"):
        types.typed(key)
    assert [one["name"] for one in types.typed(value).spark["fields"]] == ["id", "to", "note"]
    assert len(reads) == 1


ORDERS = "select offset, value_struct.to.town, value_struct.note from orders where value_struct.id {} order by 1"
OF_WORDS = """select value_struct.`select`, value_struct.`end`.member0, value_struct.day, value_struct.`order`['k'],
 value_struct.price, value_struct.empty is null, unix_millis(value_struct.timestamp) from words order by offset"""
JOINED = (
    "select o.value_struct.id, c.value_struct.page_name, v.offset from orders o, clicks c, views v where o.offset = 0"
)
ANSWERS = {
    ORDERS.format("> 0"): [(0, "Ulm", None), (1, "Ulm", "hi")],
    ORDERS.format("= 8"): [(1, "Ulm", "hi")],
    "select count(*) from orders where value_struct is null": [(1,)],
    "select value_struct from orders where offset = 1": [({"id": 8, "to": {"town": "Ulm"}, "note": "hi"},)],
    JOINED: [(7, "x", 0)],
    "select offset from words where 'value_struct' = 'a'": [],
    OF_WORDS: [(1, "a", "1970-01-02", 0.5, "1.27", False, 1), *[(None,) * 5 + (True, None)] * 2],
}


@pytest.mark.spark
@pytest.mark.exhaustive
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("query", ANSWERS)
def test_sql_has_decoded_values_as_structs(shop, spark, query):
    is_undecoded = query.startswith("select value_struct.`select`")  # the value of a record has no number
    assert rows(shop, query, "--schemas", shop / "more", some_undecoded=is_undecoded) == ANSWERS[query]


@pytest.mark.spark
@pytest.mark.exhaustive
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize(
    ("query", "options", "message"),
    [
        ("select value_struct from views", (), "views has no column value_struct"),
        ("select key_struct from orders", (), "there is no schema orders-key in"),
        ("select value_struct from orders", ("--value-format", "json"), "orders has no column value_struct"),
    ],
)
def test_sql_refuses_structs_without_one_schema(shop, spark, query, options, message):
    code, _, err = kafkalog("sql", shop, query, *options, "--schemas", shop / "more")
    assert (code, message in err) == (2, True)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_dataframes_have_decoded_values_as_structs_at_each_use(shop, spark):
    """Each use of a DataFrame has all its rows, whatever other uses filter."""
    given = shop / "more"
    orders = sql(spark, shop, "select offset, value_struct as v from orders", schemas=given)
    assert [row.v.id for row in orders.where("v.id = 8").collect()] == [8]
    assert orders.count() == 3
    both = orders.where("v.id = 7").union(orders.where("v.id = 8")).join(orders, "offset")
    assert sorted(row.offset for row in both.collect()) == [0, 1]
    decoded = sql(spark, shop, "select value_json from views", value_format="json", schemas=given)
    assert [row.value_json for row in decoded.collect()] == ['{"n":1}']
    with pytest.raises(UsageError, match="there is no format yaml"):
        sql(spark, shop, "select 1", value_format="yaml")
    reader = spark.read.format("kafkalog").options(columns="offset,value_struct", schemas=str(given))
    read = reader.option("subscribe", "orders").load(str(shop))
    assert read.schema["value_struct"].dataType.names == ["id", "to", "note"]
    assert [row.id for row in read.where("value_struct.id = 8").select("value_struct.id").collect()] == [8]
    assert read.count() == 3
    given_schema = spark.read.format("kafkalog").option("schemas", str(given)).option("subscribe", "orders")
    assert given_schema.schema(read.schema).load(str(shop)).count() == 3
    with pytest.raises(Exception, match="other fields in each topic"):
        spark.read.format("kafkalog").options(columns="value_struct", schemas=str(given)).option(
            "subscribe", "orders,words").load(str(shop))  # fmt: skip

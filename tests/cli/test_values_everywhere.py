"""Decoded values in `find`, `sql`, `export` and the library: what `read` decodes, and what Confluent's deserialisers do."""

import json
import random
import uuid
import warnings
from types import SimpleNamespace

import pytest

import kafkalog_cli as kl
from tests.cli.test_read_values import framed, log_dir, partition, registered
from tests.support.commands import kafkalog
from tests.support.logs import R
from tests.support.product import UsageError

__all__ = ["log_dir"]

fastavro = pytest.importorskip("fastavro")
AUTO = ("--value-format", "auto")


def read(place, *options):
    """Decoded values by topic and offset, as read prints them, and the offsets that it does not decode."""
    code, out, _ = kafkalog("read", place, *AUTO, "--format", "json", *options)
    lines = [json.loads(line) for line in out.splitlines()][:-1]
    decoded = {one["offset"]: one["decoded"]["value"] for one in lines if "value" in one["decoded"]}
    return {offset: one["data"] for offset, one in decoded.items() if "data" in one}, {
        offset for offset, one in decoded.items() if "error" in one
    }


def records_of(random, count):
    """Random orders as fastavro writes them, with plain and unknown contents between, and what each is."""
    schema = fastavro.parse_schema({"type": "record", "name": "O", "fields": [
        {"name": "id", "type": "long"}, {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "total", "type": ["null", "double"]}]})  # fmt: skip
    import io

    records, wanted = [], {}
    for offset in range(count):
        order = {"id": random.randrange(50), "tags": random.choices(["größe", "a", "\n\u2028"], k=random.randrange(3)),
                 "total": random.choice([None, 0.5, 1e300])}  # fmt: skip
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, order)
        kind = random.random()
        if kind < 0.8:
            value, wanted[offset] = framed(7, out.getvalue()), order
        else:
            value = random.choice([None, b"text", framed(99, b"x"), framed(7, b"\x80")])
        records.append(R(offset, 1_700_000_000_000 + offset, b"k%d" % (offset % 5), value))
    text = json.dumps({"type": "record", "name": "O", "fields": schema["fields"]})
    return records, wanted, text


@pytest.fixture
def orders(tmp_path):
    """A log directory with a topic of random orders, and the orders by offset as fastavro has them."""
    records, wanted, text = records_of(random.Random(11), 300)
    root = tmp_path / "random"
    partition(root / "_schemas-0", [registered(0, "orders-value", 1, 7, text)])
    partition(root / "orders-0", records[:200])
    partition(root / "orders-1", [one._replace(offset=one.offset - 200) for one in records[200:]])
    return SimpleNamespace(root=root, wanted=wanted)


def plain(value):
    """A decoded order without the branch names of unions, as Confluent's deserialisers return it."""
    return {**value, "total": value["total"] and value["total"]["double"]}


def test_find_looks_into_decoded_values(orders):
    for number in (3, 17, 49):
        code, out, err = kafkalog("find", orders.root, "--topic", "orders", "--json", f"id={number}", *AUTO,
                                  "--format", "json")  # fmt: skip
        found = [json.loads(line) for line in out.splitlines()][:-1]
        offsets = [one["offset"] + 200 * one["partition"] for one in found]
        assert offsets == [offset for offset, one in orders.wanted.items() if one["id"] == number]
        assert [plain(one["decoded"]["value"]["data"]) for one in found] == [orders.wanted[one] for one in offsets]
        assert code == 3
        assert "not decoded" in err
    code, out, _ = kafkalog("find", orders.root, "--topic", "orders", "--json", "tags[*]=größe", *AUTO, "--count")
    wanted = [
        [offset // 200 for offset, one in orders.wanted.items() if "größe" in one["tags"]].count(n) for n in (0, 1)
    ]
    assert out == f"orders-0:{wanted[0]}\norders-1:{wanted[1]}\n"


def test_the_library_decodes_values_with_schemas_and_reports_what_it_cannot(orders, log_dir):
    for number in (0, 1):
        place = orders.root / f"orders-{number}"
        data, errors = read(place)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", kl.LogWarning)
            log = kl.open_partition(place)
            rows = [row for part in log.records(columns=["offset"], value_format="auto") for row in part.to_pylist()]
        assert [row["offset"] for row in rows] == [*range(len(rows))]
        assert {row["offset"]: json.loads(row["value_json"]) for row in rows if row["value_json"]} == data
        assert errors
        assert any("not decoded" in str(one.message) for one in caught)
        assert {offset: plain(one) for offset, one in data.items()} == {
            offset - 200 * number: one for offset, one in orders.wanted.items() if offset // 200 == number
        }
    found = list(kl.find(log_dir / "orders-0", json=["id=8"], value_format="avro", key_format="string"))
    assert [(one.offset, one.decoded_key, one.decoded_value["note"]) for one in found] == [(1, "b", {"string": "hi"})]
    with pytest.raises(UsageError, match="there is no format yaml"):
        next(kl.open_partition(place).records(value_format="yaml"))


def test_headers_give_the_framing_too(tmp_path):
    """A framing in a header: the library reads headers that the caller did not ask for."""
    guid = uuid.UUID(int=77)
    (tmp_path / f"{guid}.avsc").write_text('"string"')
    header = (b"__value_schema_id", b"\x01" + guid.bytes)
    partition(tmp_path / "known" / "headed-0", [R(0, 1, None, b"\x06Ulm", (header,))])
    place, schemas = tmp_path / "known" / "headed-0", ("--schemas", tmp_path)
    assert read(place, *schemas)[0] == {0: "Ulm"}
    (part,) = kl.open_partition(place).records(columns=["offset"], value_format="auto", schemas=tmp_path)
    assert part.to_pylist() == [{"offset": 0, "value_json": '"Ulm"'}]
    assert kafkalog("find", place, "--json", "$=Ulm", *AUTO, *schemas, "--count") == (0, "headed-0:1\n", "")


def test_find_reports_what_may_match(log_dir):
    code, out, err = kafkalog("find", log_dir / "mixed-0", "--json", "id=1", *AUTO)
    assert (code, out) == (3, "")
    assert "the value of offset 1 and 1 more are not decoded: no schema id 99" in err
    code, out, err = kafkalog("find", log_dir / "mixed-0", "--json", "id=1", *AUTO, "--last", "1", "--format", "json")
    assert (code, err.count("undecoded")) == (3, 1)
    code, out, err = kafkalog("find", log_dir / "mixed-0", "--value", "x", *AUTO)
    assert (code, out.count("\n"), err.count("not decoded")) == (3, 2, 1)
    assert kafkalog("find", log_dir, "--schemas", log_dir)[0] == 2

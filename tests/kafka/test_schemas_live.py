"""The schemas of internal topics against real Kafka: its own message definitions, and its dump of each message."""

import json
import random
import re
import struct
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kafka.agreement import assert_agree, run_ours
from tests.kafka.real_kafka import CACHE
from tests.support.logs import R, batch_v2
from tests.support.product import definitions, encode_message
from tests.support.product_kafka import (
    API_MESSAGE_TOPICS,
    COORDINATOR_TOPICS,
    encode_unsigned,
    is_in,
    message_schema,
    uuid_text,
)

DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__share_group_state": "--share-group-state-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
}
EACH = 6
"""So many random messages of each version."""


@pytest.fixture(params=["real_kafka", "newest_kafka"])
def kafka(request):
    return request.getfixturevalue(request.param)


def kafkas_definitions(version):
    """The message definitions in Kafka's jars by their names."""
    found = {}
    for jar in sorted((CACHE / f"kafka-{version}").glob("kafka-*.jar")):
        if jar.name.startswith("kafka-streams"):  # its messages are its own, and have comments within lines
            continue
        with zipfile.ZipFile(jar) as files:
            for name in files.namelist():
                if re.fullmatch(r"(common/)?(message|metadata)/.*\.json", name):
                    text = re.sub(r"(?m)^\s*//.*$", "", files.read(name).decode())
                    one = json.loads(text)
                    found[one["name"]] = one
    return found


def rows(fields, structs, release):
    """Fields of a definition of Kafka's, in the words of schemas.json that decide how they are read."""
    for field in fields:
        kind = field["type"]
        items = kind.removeprefix("[]")
        inner = field.get("fields") or structs.get(items)
        yield (
            field["name"][0].lower() + field["name"][1:],
            field.get("versions") or field["taggedVersions"],
            field.get("nullableVersions"),
            field.get("tag", -1),
            "array" if kind.startswith("[]") else "struct" if inner else kind,
            tuple(rows(inner, structs, release)) if inner else items,
        )


def our_rows(fields, release):
    for field in fields:
        if not is_in(field, release):
            continue
        is_struct = "struct" in (field["type"], field.get("items"))
        inner = tuple(our_rows(field["fields"], release)) if is_struct else field.get("items", field["type"])
        yield (
            field["name"],
            range_text(field["versions"]),
            range_text(field["nullable"]) if "nullable" in field else None,
            field.get("tag", -1),
            field["type"],
            inner,
        )


def range_text(versions):
    first, last = versions
    return f"{first}+" if last is None else str(first) if first == last else f"{first}-{last}"


def test_the_schemas_are_kafkas(kafka):
    """Names, order, types, versions and tags of all fields of all messages, as the jars of this release define them."""
    release = kafka.version.schemas
    version = "4.2.0" if kafka.version.is_scala else kafka.version.release
    real, compared = kafkas_definitions(version), 0
    for name, message in definitions()["messages"].items():
        if not is_in(message, release):
            assert name not in real
            continue
        structs = {each["name"]: each["fields"] for each in real[name].get("commonStructs", ())}
        assert [*our_rows(message["fields"], release)] == [*rows(real[name]["fields"], structs, release)], name
        versions = message_schema(name, release).versions
        assert range_text(versions) == real[name]["validVersions"], name
        compared += 1
    assert compared == (90 if release < (4, 4) else 91)


def random_message(chance, fields, version):
    found = {}
    for field in fields:
        if version not in field.versions or (field.tag >= 0 and chance.random() < 0.3):
            continue
        value = random_value(chance, field, field.kind, version)
        if field.tag < 0 or value != field.default:
            found[field.name] = value
    return found


def random_value(chance, field, kind, version):
    if version in field.nullable and chance.random() < 0.3:
        return None
    if kind == "array":
        return [
            random_value(chance, replace(field, nullable=()), field.items, version) for _ in range(chance.randrange(4))
        ]
    if kind == "struct":
        return random_message(chance, field.fields, version)
    if kind == "string":
        return "".join(chance.choice('abc"\\é\n') for _ in range(chance.randrange(8))) + str(chance.randrange(10**6))
    if kind == "bytes":
        return chance.randbytes(chance.randrange(9))
    if kind == "uuid":
        return uuid_text(chance.randbytes(16))
    if kind == "bool":
        return chance.random() < 0.5
    if kind == "float64":
        return chance.choice([0.0, -1.5, 1e9, 3.14159])
    bits = int(kind.lstrip("uint"))
    number = chance.choice([0, 1, (1 << bits) - 1, chance.getrandbits(bits)])
    return number if kind.startswith("u") or number < 1 << (bits - 1) else number - (1 << bits)


def random_records(chance, topic):
    """A key and a value of every type of record in every version, each several times."""
    for record in definitions()["topics"][topic]["records"]:
        schema = message_schema(record["value"])
        for version in range(schema.versions.first, schema.versions.last + 1):
            for _ in range(EACH):
                value = encode_message(record["value"], version, random_message(chance, schema.fields, version))
                if topic in COORDINATOR_TOPICS:
                    key = random_message(chance, message_schema(record["key"]).fields, 0)
                    head = struct.pack(">h", record["recordType"])
                    yield head + encode_message(record["key"], 0, key), struct.pack(">h", version) + value
                else:
                    head = b"".join(map(encode_unsigned, (1, record["apiKey"], version)))
                    yield None, head + value


@pytest.mark.exhaustive
@pytest.mark.parametrize("topic", DECODERS)
def test_every_message_prints_the_same(kafka, tmp_path, topic):
    """Those of the newest release too, which an older tool does not know all fields of."""
    assert topic in COORDINATOR_TOPICS + API_MESSAGE_TOPICS
    made = [R(at, 1, key, value) for at, (key, value) in enumerate(random_records(random.Random(7), topic))]
    path = Path(tmp_path) / f"{0:020d}.log"
    path.write_bytes(batch_v2(made))
    argv = ["--files", str(path), DECODERS[topic]]
    (real,) = kafka.dump([argv], tmp_path)
    assert real.stdout.count(b"payload:") >= EACH
    assert_agree(argv, run_ours(argv, version=kafka.version), real)

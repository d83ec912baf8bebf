"""The messages that `serve` reads and writes, against Kafka's own definitions in the jars of its clients."""

import json
import re
import zipfile

import pytest

from tests.kafka.real_kafka import NoRealKafka
from tests.kafka.spark_connector import connector_jars
from tests.support.product import apis
from tests.support.product_kafka import PRODUCE, apis_for_old_clients

KAFKA_3 = "4.2.0"
"""The release of Spark whose Kafka source has clients of Kafka 3.9, which still have the first versions of Fetch."""


def definitions(jar):
    """{name of a message: its definition}."""
    found = {}
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if re.fullmatch(r"common/message/\w+\.json", name):
                one = json.loads(re.sub(r"(?m)^\s*//.*$", "", archive.read(name).decode()))
                found[one["name"]] = one
    return found


def is_in(text, version):
    """Whether a version is in a range such as 3+, 0-12, 7 or none."""
    if text in (None, "none"):
        return False
    first, _, last = text.rstrip("+").partition("-")
    return int(first) <= version <= (1 << 15 if text.endswith("+") else int(last or first))


def kafkas_fields(definition, version):
    """The fields of a version, as `our_fields` gives them."""
    structs = {one["name"]: one["fields"] for one in definition.get("commonStructs", ())}

    def walk(fields):
        for one in fields:
            if is_in(one["versions"], version):
                kind = one["type"].removeprefix("[]")
                inner = one.get("fields") or structs.get(kind, ())
                tag = one["tag"] if is_in(one.get("taggedVersions"), version) else -1
                yield (
                    *(one["name"].lower(), one["type"].startswith("[]"), "struct" if inner else kind),
                    *(tag, is_in(one.get("nullableVersions"), version), [*walk(inner)]),
                )

    return is_in(definition["flexibleVersions"], version), [*walk(definition["fields"])]


def our_fields(schema, version):
    """Name, whether it is an array, type, tag, whether it may be null, and the fields of a struct."""

    def walk(fields):
        for one in fields:
            tag = one.tag if version in one.tagged else -1
            if tag >= 0 or (one.tag < 0 and version in one.versions):
                kind = one.items if one.kind == "array" else one.kind
                nullable = version in one.nullable
                yield one.name.lower(), one.kind == "array", kind, tag, nullable, [*walk(one.fields)]

    return version in schema.flexible, [*walk(schema.fields)]


def differing(served, definitions, versions):
    """(message, version) where the fields differ, and the number of versions of messages that were compared."""
    found, count = [], 0
    for api in served.values():
        for schema in (api.request, api.response):
            for version in versions(api):
                count += 1
                if our_fields(schema, version) != kafkas_fields(definitions[schema.name], version):
                    found.append((schema.name, version))
    return found, count


def test_all_versions_are_those_of_the_newest_kafka(newest_kafka):
    jar = next(one for one in newest_kafka.class_path.split(":") if re.search(r"kafka-clients-[\d.]+\.jar", one))
    found, count = differing(apis(), definitions(jar), lambda api: range(api.versions.first, api.versions.last + 1))
    assert found == []
    assert count > 200


def test_the_first_versions_are_those_of_kafka_3():
    """Fetch, ListOffsets, OffsetCommit and OffsetFetch, which Kafka 4 has no more."""
    try:
        jars = connector_jars(KAFKA_3).split(",")
    except NoRealKafka as reason:
        pytest.skip(str(reason))
    jar = next(one for one in jars if "kafka-clients-3.9" in one)
    today, old = apis(), apis_for_old_clients()
    first = {key: api for key, api in old.items() if api.versions != today[key].versions and key != PRODUCE}
    assert sorted(api.name for api in first.values()) == ["Fetch", "ListOffsets", "OffsetCommit", "OffsetFetch"]
    found, count = differing(first, definitions(jar), lambda api: range(today[api.key].versions.first))
    assert found == []
    assert count == 2 * (4 + 1 + 2 + 1)

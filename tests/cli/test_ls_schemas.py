"""Every line of `ls --format json` against its JSON Schema in docs/schemas, over all the logs of real brokers."""

import io
import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from kafkalog_cli.cli.app import run
from kafkalog_cli.cli.environment import Environment

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
NAMES = ("partition", "segment", "logdir", "file", "topic")


@pytest.fixture(scope="module")
def schemas():
    texts = [(SCHEMAS / f"kafkalog.{name}-1.json").read_text() for name in NAMES]
    found = {schema["$id"]: schema for schema in map(json.loads, texts)}
    for schema in found.values():
        Draft202012Validator.check_schema(schema)
    return found


@pytest.fixture(scope="module")
def objects(corpus):
    paths = [str(p) for p in sorted(corpus.glob("*/*")) if p.name in ("data", "before", "after", "running")]
    files = [str(p) for p in sorted((corpus / "internal" / "data" / "__cluster_metadata-0").iterdir())]
    lines = []
    usage = ["--freeable", "--config", "cleanup.policy=delete", "--config", "retention.ms=1"]
    for argv in ([*paths, *files], ["--segments", *paths], [*usage, *paths], ["--topics", *paths]):
        stdout = io.BytesIO()
        assert run(["ls", "--format", "json", *argv], Environment(stdout=stdout, stderr=io.BytesIO())) == 4
        lines += stdout.getvalue().decode().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
def test_every_object_is_as_its_schema_says(schemas, objects, name):
    schema = schemas[f"kafkalog.{name}/1"]
    validator = Draft202012Validator(schema)
    found = [each for each in objects if each["schema"] == schema["$id"]]
    assert len(found) >= 8
    for each in found:
        assert not [*validator.iter_errors(each)]
        assert each.keys() <= schema["properties"].keys(), "a field that the schema does not know"
    fields = {field for each in found for field in each}
    assert {field for field in schema["properties"] if not field.endswith("_b64")} == fields


def test_a_schema_refuses_what_is_not_right(schemas, objects):
    partition = next(each for each in objects if each["type"] == "partition")
    validator = Draft202012Validator(schemas["kafkalog.partition/1"])
    assert validator.is_valid(partition)
    for field in ("segments", "bytes", "faults", "checkpoints", "log_end_offset"):
        assert not validator.is_valid({**partition, field: "x"}), field
        assert not validator.is_valid({key: value for key, value in partition.items() if key != field}), field

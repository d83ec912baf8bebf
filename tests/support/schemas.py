"""Holds machine output against docs/schemas."""

import copy
import json
from pathlib import Path

from jsonschema import Draft202012Validator

FILES = sorted((Path(__file__).parents[2] / "docs" / "schemas").glob("*.json"))


def strict(schema):
    """The schema without room for fields that it does not name: what is undocumented fails."""
    schema = copy.deepcopy(schema)

    def close(part):
        if isinstance(part, dict):
            if "properties" in part:
                part.setdefault("additionalProperties", False)
            for item in part.values():
                close(item)
        elif isinstance(part, list):
            for item in part:
                close(item)

    close(schema)
    return schema


SCHEMAS = {schema["$id"]: schema for schema in (json.loads(file.read_text()) for file in FILES)}
SEVERAL_ORDERS = {"kafkalog.summary/1", "kafkalog.lookup/1"}  # the counts of commands; two kinds of answers
VALIDATORS = {name: Draft202012Validator(strict(schema)) for name, schema in SCHEMAS.items()}


def in_order(thing, schema):
    """Whether an object and the objects in it have their fields in the order of the declaration."""
    if isinstance(thing, list):
        return all(in_order(item, schema["items"]) for item in thing)
    if not isinstance(thing, dict):
        return True
    parts = [part["properties"] for part in schema.get("oneOf", [schema]) if "properties" in part]
    properties = next((part for part in parts if thing.keys() <= part.keys()), None) or schema.get("properties")
    if properties is None:  # by names that are not declared
        return True
    named = [name for name in properties if name in thing]
    return [name for name in thing if name in properties] == named and all(
        in_order(thing[name], properties[name]) for name in named
    )


def check(lines):
    """The names of the schemas that occur; every line fits its own, which docs/generate_schemas.py made."""
    seen = set()
    for line in lines:
        thing = json.loads(line)
        schema = thing["schema"]
        error = next(VALIDATORS[schema].iter_errors(thing), None)
        assert error is None, (thing, error)
        assert schema in SEVERAL_ORDERS or in_order(thing, SCHEMAS[schema]), thing
        seen.add(schema)
    return seen

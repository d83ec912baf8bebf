"""Strategies of Kafka's messages: any value that a schema allows in a version."""

import math

from hypothesis import strategies as st

from kafkalog_cli.format.internal_topics.schema import definitions, message_schema
from kafkalog_cli.format.java_text import uuid_text

NAMES = sorted(definitions()["messages"])
VERSIONS = [
    (name, version)
    for name in NAMES
    for version in range(message_schema(name).versions.first, message_schema(name).versions.last + 1)
]


def _signed(bits):
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


VALUES = {
    "bool": st.booleans(),
    "int8": _signed(8),
    "int16": _signed(16),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": _signed(32),
    "uint32": st.integers(0, 2**32 - 1),
    "int64": _signed(64),
    "float64": st.floats(allow_nan=False),
    "string": st.text(max_size=10),
    "bytes": st.binary(max_size=10),
    "records": st.binary(max_size=10),
    "uuid": st.binary(min_size=16, max_size=16).map(uuid_text),
}


def messages(name, version):
    """Messages as the decoder gives them: a tagged field is there if it is not at its default."""
    return fields_of(message_schema(name).fields, version)


def fields_of(fields, version):
    """Values of the fields of a schema."""
    present = {field.name: _values(field, version) for field in fields if field.tag < 0 and version in field.versions}
    tagged = {
        field.name: _values(field, version).filter(lambda value, default=field.default: value != default)
        for field in fields
        if field.tag >= 0 and version in field.tagged
    }
    order = [field.name for field in fields]
    return st.fixed_dictionaries(present, optional=tagged).map(
        lambda message: {name: message[name] for name in order if name in message}
    )


def _values(field, version):
    if field.kind == "array":
        elements = fields_of(field.fields, version) if field.items == "struct" else VALUES[field.items]
        values = st.lists(elements, max_size=3)
    elif field.kind == "struct":
        values = fields_of(field.fields, version)
    else:
        values = VALUES[field.kind]
    return st.none() | values if version in field.nullable else values


def same(left, right):
    """Equal, with types, the order of fields and the sign of zero."""
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float):
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    return type(left) is type(right) and left == right

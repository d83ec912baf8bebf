"""The formats of keys and values that can be decoded. Commands have them as choices, so this module imports little."""

from __future__ import annotations

from enum import Enum, unique


@unique
class ValueFormat(Enum):
    """How keys or values were written."""

    AUTO = "auto"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    JSON = "json"
    STRING = "string"
    INT = "int"
    LONG = "long"
    SHORT = "short"
    FLOAT = "float"
    DOUBLE = "double"
    UUID = "uuid"
    HEX = "hex"
    BASE64 = "base64"

    @property
    def needs_schemas(self) -> bool:
        """Whether a value of this format cannot be decoded without its schema."""
        return self in (ValueFormat.AUTO, ValueFormat.AVRO, ValueFormat.PROTOBUF)

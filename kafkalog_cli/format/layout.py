"""Fixed binary layouts as tables: the struct and docs/format.md come from one table."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple


class Field(NamedTuple):
    """One field: its name, its struct code (big-endian) and its meaning."""

    name: str
    code: str
    meaning: str


class Layout:
    """A fixed big-endian structure. Offsets and sizes are in bytes.

    `kafka_class` is the name of the Apache Kafka class that it mirrors.
    """

    def __init__(self, name: str, kafka_class: str, *fields: Field) -> None:
        self.name = name
        self.kafka_class = kafka_class
        self.fields = fields
        self.struct = struct.Struct(">" + "".join(field.code for field in fields))
        self.size = self.struct.size
        self.offset: dict[str, int] = {}
        position = 0
        for field in fields:
            self.offset[field.name] = position
            position += struct.calcsize(">" + field.code)

    def struct_of(self, *names: str) -> struct.Struct:
        """Return the struct of the first fields only, whose names must be `names`."""
        assert names == tuple(field.name for field in self.fields[: len(names)])
        return struct.Struct(">" + "".join(field.code for field in self.fields[: len(names)]))

    def rows(self) -> Iterator[tuple[int, int, str, str]]:
        """Yield (offset, size, name, meaning) for each field: the table in docs/format.md."""
        for field in self.fields:
            yield self.offset[field.name], struct.calcsize(">" + field.code), field.name, field.meaning

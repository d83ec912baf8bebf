"""Fixed binary layouts as tables, and sequences of entries of one size.

The struct and its page of the site come from one table.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar, overload


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
        """Yield (offset, size, name, meaning) for each field: the table on the page of the site."""
        for field in self.fields:
            yield self.offset[field.name], struct.calcsize(">" + field.code), field.name, field.meaning


EntryT = TypeVar("EntryT")


class PackedEntries(Sequence[EntryT]):
    """A read-only list of the complete entries in `data`, which makes an entry when it is asked for.

    A subclass has the layout of an entry, and a method that makes an entry from its fields. A list of all entries would
    take five to ten times the memory of the bytes.
    """

    __slots__ = ("data",)

    layout: ClassVar[Layout]

    def __init__(self, data: bytes | memoryview) -> None:
        self.data = data

    def entry(self, fields: tuple[Any, ...], /) -> EntryT:
        """Return the entry with these fields."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.data) // self.layout.size

    def __iter__(self) -> Iterator[EntryT]:
        return map(self.entry, self.stored())

    def stored(self) -> Iterator[tuple[Any, ...]]:
        """Iterate over the fields of the entries, as stored."""
        return self.layout.struct.iter_unpack(memoryview(self.data)[: len(self) * self.layout.size])

    @overload
    def __getitem__(self, slot: int) -> EntryT: ...
    @overload
    def __getitem__(self, slot: slice) -> Sequence[EntryT]: ...
    def __getitem__(self, slot: int | slice) -> EntryT | Sequence[EntryT]:
        if isinstance(slot, slice):
            return [self[number] for number in range(*slot.indices(len(self)))]
        count = len(self)
        if not -count <= slot < count:
            raise IndexError(slot)
        return self.entry(self.layout.struct.unpack_from(self.data, slot % count * self.layout.size))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(other) != len(self):
            return NotImplemented if not isinstance(other, Sequence) else False
        return all(entry == another for entry, another in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(bytes(self.data))

"""Entries of equal size as a sequence that decodes each when it is asked for: a file may have millions of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

if TYPE_CHECKING:
    from kafkalog_cli.format.layout import Layout

EntryT = TypeVar("EntryT")


class PackedEntries(Sequence[EntryT]):
    """The complete entries in `data`, which is made of `layout`; equal to a list of them.

    A subclass has the layout, and a method that makes an entry from its fields. As objects, entries take five to ten
    times their bytes.
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
        return all(one == another for one, another in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(bytes(self.data))

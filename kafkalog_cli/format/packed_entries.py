"""Entries of equal size as a sequence that decodes each when it is asked for: a file may have millions of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

if TYPE_CHECKING:
    from kafkalog_cli.format.layout import Layout

EntryT = TypeVar("EntryT")


class PackedEntries(Sequence[EntryT], Generic[EntryT]):
    """The entries in `data`, a whole number of `layout`; `make` makes an entry of its fields. Equal to a list of them.

    As objects, entries take five to ten times their bytes.
    """

    __slots__ = ("_data", "_layout", "_make")

    def __init__(self, data: memoryview, layout: Layout, make: Callable[[tuple[Any, ...]], EntryT]) -> None:
        self._data = data
        self._layout = layout
        self._make = make

    def __len__(self) -> int:
        return len(self._data) // self._layout.size

    def __iter__(self) -> Iterator[EntryT]:
        return map(self._make, self._layout.struct.iter_unpack(self._data))

    @overload
    def __getitem__(self, slot: int) -> EntryT: ...
    @overload
    def __getitem__(self, slot: slice) -> Sequence[EntryT]: ...
    def __getitem__(self, slot: int | slice) -> EntryT | Sequence[EntryT]:
        if isinstance(slot, slice):
            return [self[number] for number in range(*slot.indices(len(self)))]
        number = slot + len(self) if slot < 0 else slot
        if not 0 <= number < len(self):
            raise IndexError(slot)
        return self._make(self._layout.struct.unpack_from(self._data, number * self._layout.size))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(other) != len(self):
            return NotImplemented if not isinstance(other, Sequence) else False
        return all(one == another for one, another in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(bytes(self._data))

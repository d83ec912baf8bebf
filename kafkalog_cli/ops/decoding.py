"""How keys and values are decoded. Commands have it as an option, so this module imports little."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_cli.errors import UsageError
from kafkalog_cli.format.values.value_format import ValueFormat

if TYPE_CHECKING:
    from kafkalog_cli.disk.fs import Filesystem
    from kafkalog_cli.format.values.decoder import ValueDecoder
    from kafkalog_cli.ops.call.observer import Note


class Decoding(NamedTuple):
    """How keys and values are decoded. None: not at all; `schemas` None: `_schemas` beside the partitions."""

    key_format: ValueFormat | None = None
    value_format: ValueFormat | None = None
    schemas: str | None = None

    @classmethod
    def of_words(cls, key_format: object, value_format: object, schemas: str | None) -> Decoding:
        """Return the decoding with formats by their names. Raises UsageError."""
        formats: list[ValueFormat | None] = []
        for name in (key_format, value_format):
            try:
                formats.append(None if name is None else ValueFormat(name))
            except ValueError:
                known = ", ".join(one.value for one in ValueFormat)
                raise UsageError(reason=f"there is no format {name} of keys and values; there are {known}") from None
        found = cls(formats[0], formats[1], schemas)
        found.check()
        return found

    def check(self) -> None:
        """Raise UsageError for schemas that no format needs, and for values in a format of keys."""
        if self.value_format is not None and self.value_format.is_windowed:
            raise UsageError(reason=f"{self.value_format.value} is a format of keys, not of values")
        if self.schemas is not None and not self:
            raise UsageError(reason="--schemas is for --value-format or --key-format")

    def __bool__(self) -> bool:
        return self.key_format is not None or self.value_format is not None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of contents that are decoded: key, value."""
        return tuple(name for name, wanted in zip(("key", "value"), self[:2], strict=True) if wanted is not None)

    def or_auto(self) -> Decoding:
        """Return the decoding with the format AUTO in place of none."""
        return Decoding(self.key_format or ValueFormat.AUTO, self.value_format or ValueFormat.AUTO, self.schemas)

    def absolute(self) -> Decoding:
        """Return the decoding for workers, whose directory may be another."""
        return self if self.schemas is None else self._replace(schemas=os.path.abspath(self.schemas))  # noqa: PTH100

    def options(self) -> dict[str, str]:
        """Return the options of the data source that choose this decoding."""
        formats = {"keyFormat": self.key_format, "valueFormat": self.value_format}
        found = {name: one.value for name, one in formats.items() if one is not None}
        return found if self.schemas is None else {**found, "schemas": self.schemas}

    @property
    def words(self) -> str:
        """The formats, in words that differ when the decoding differs."""
        formats = [one.value if one is not None else "stored" for one in (self.key_format, self.value_format)]
        return " ".join([*formats, *([] if self.schemas is None else [self.schemas])])

    def decoder(self, fs: Filesystem, partitions: Sequence[str]) -> tuple[ValueDecoder | None, list[Note]]:
        """Return the decoder for partitions with these paths, None if nothing is decoded; see `value_decoder`."""
        if not self:
            return None, []
        from kafkalog_cli.ops.values import value_decoder

        return value_decoder(fs, *self, partitions)

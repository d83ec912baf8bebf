"""Declarations of JSON objects: each kind of object is declared once, as a TypedDict with the meaning of its fields.

The code that fills an object is type-checked against the declaration. `docs/generate_schemas.py` writes docs/schemas
and docs/output.md from the declarations. The meaning of a field is the last string of its `Annotated`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Generic, NamedTuple, TypeVar, cast

from kafkalog_cli.disk.names import DirectoryKind
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.format.compression import Codec, codec_name

if TYPE_CHECKING:
    from typing_extensions import NotRequired as NotRequired  # noqa: PLC0414 - other modules import it from here
else:

    class NotRequired:
        """A field that some objects do not have; Python 3.10 has no such form."""

        def __class_getitem__(cls, field):
            return Annotated[field, MAY_BE_ABSENT]


RecordT = TypeVar("RecordT", bound=Mapping[str, object])


@dataclass(frozen=True, slots=True)
class ObjectKind(Generic[RecordT]):
    """A kind of JSON object: the name of its schema, such as `kafkalog.record/1`, and its TypedDict.

    `other`: some objects are of this TypedDict instead. `is_open`: objects have further fields.
    """

    name: str
    record: type[RecordT]
    other: type[Mapping[str, object]] | None = None
    is_open: bool = False

    @property
    def type(self) -> str:
        """The `type` of the objects: record for `kafkalog.record/1`."""
        return self.name.removeprefix("kafkalog.").partition("/")[0]


class PathText(str):
    """A path, a file name or a topic. If it is not UTF-8, its object gets a second field with its bytes in base64."""

    __slots__ = ()


class Keywords(NamedTuple):
    """Keywords of JSON Schema that narrow a type."""

    items: tuple[tuple[str, object], ...]


def keywords(**items: object) -> Keywords:
    """Return these keywords of JSON Schema."""
    return Keywords(tuple(items.items()))


def exit_codes(*codes: ExitCode) -> Keywords:
    """Return the keywords of an exit code that is one of `codes`."""
    return keywords(enum=tuple(sorted(map(int, codes))))


def lower_names(*words: Enum) -> Keywords:
    """Return the keywords of a text that is the name of one of `words` in lower case."""
    return keywords(enum=tuple(word.name.lower() for word in words))


MAY_BE_ABSENT = keywords()
OPEN = keywords(additionalProperties=True)
"""Marks an object with further fields."""

RawBytes = bytes
"""Bytes, which become an object: see `json_bytes`. The name is free in records with a field `bytes`."""
Count = Annotated[int, keywords(minimum=0)]
Positive = Annotated[int, keywords(minimum=1)]
DirectoryWord = Annotated[
    str,
    lower_names(*(kind for kind in DirectoryKind if kind not in (DirectoryKind.REMOTE_INDEX_CACHE, DirectoryKind.OWN))),
    "by the directory's name",
]
CodecWord = Annotated[str, keywords(enum=tuple(map(codec_name, Codec)))]
AnyExitCode = Annotated[int, exit_codes(*ExitCode), "see EXIT STATUS in the man pages"]


def same_fields(record: type[RecordT], found: object) -> RecordT:
    """Return an object of `record` whose fields are the attributes of `found` with the same names."""
    fields: Any = {name: getattr(found, name) for name in record.__annotations__}
    return cast(RecordT, fields)

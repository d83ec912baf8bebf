"""The tables of requests and responses, and how their headers and bodies are read and written."""

import json
import struct
from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any, NamedTuple

from kafkalog_cli.format.internal_topics.decode import Spliced, Undecodable, WireReader, encode_pieces, read_fields
from kafkalog_cli.format.internal_topics.schema import Message, MessageSchema, Versions, schema_of

PRODUCE, FETCH, LIST_OFFSETS, OFFSET_COMMIT, OFFSET_FETCH, API_VERSIONS = 0, 1, 2, 8, 9, 18
_INT32 = struct.Struct(">i")


class BadRequest(Exception):
    """Bytes that are not a request. The text is the reason."""


class Api(NamedTuple):
    """An API of the protocol. `versions` are the served versions."""

    key: int
    name: str
    request: MessageSchema
    response: MessageSchema
    versions: Versions


class RequestHeader(NamedTuple):
    """The header of a request."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None


@cache
def _definitions() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("messages.json").read_text(encoding="utf-8")
    return json.loads(text)  # type: ignore[no-any-return]


@cache
def apis() -> Mapping[int, Api]:
    """Return the served APIs by their keys."""
    return MappingProxyType({int(key): _api(int(key), name) for key, name in _definitions()["apis"].items()})


@cache
def apis_for_old_clients() -> Mapping[int, Api]:
    """Return the served APIs with the first versions of four, which clients of Kafka 0.8 to 0.10 request."""
    old = (FETCH, LIST_OFFSETS, OFFSET_COMMIT, OFFSET_FETCH)
    return MappingProxyType({**apis(), **{key: _api(key, apis()[key].name, first=0) for key in old}})


def _api(key: int, name: str, first: int | None = None) -> Api:
    """Return an API in its served versions; `first` is an older first version."""
    messages = _definitions()["messages"]
    served = Versions(*messages[f"{name}Request"]["versions"])
    versions = served if first is None else served._replace(first=first)

    def schema(kind: str) -> MessageSchema:
        return schema_of(kind, {**messages[kind], "versions": versions})

    return Api(key, name, schema(f"{name}Request"), schema(f"{name}Response"), versions)


def read_header(data: bytes, served: Mapping[int, Api]) -> tuple[RequestHeader, WireReader]:
    """Read the header of a request, and return the reader of its body.

    The tagged fields of a header are read only for a served version: of other versions the encoding is not known.
    Raises BadRequest.
    """
    try:
        reader = WireReader(data)
        key, version = reader.integer("int16"), reader.integer("int16")
        correlation = reader.integer("int32")
        size = reader.integer("int16")
        client = reader.string(size) if size >= 0 else None
        api = served.get(key)
        if api is not None and version in api.versions and version in api.request.flexible:
            _skip_tags(reader)
    except Undecodable as error:
        raise BadRequest(f"its header cannot be read: {error}") from error
    return RequestHeader(key, version, correlation, client), reader


def read_request(api: Api, version: int, reader: WireReader) -> Message:
    """Read the body of a request. Bytes after its fields are ignored, as by a broker. Raises BadRequest."""
    try:
        return read_fields(api.request, version, reader)
    except Undecodable as error:
        raise BadRequest(f"{api.name} v{version} cannot be read: {error}") from error


def response_pieces(api: Api, version: int, correlation_id: int, message: Message) -> list[bytes | Spliced]:
    """Return the frame of a response: its size, header and body. Neighbouring bytes are joined, and bytes come first.

    The header of a flexible version ends with tagged fields. ApiVersions has none, so that a client can read the answer
    to a version that the broker does not know.
    """
    joined = bytearray(_INT32.size) + _INT32.pack(correlation_id)
    if version in api.response.flexible and api.key != API_VERSIONS:
        joined += b"\0"
    pieces: list[bytes | Spliced] = []
    for piece in encode_pieces(api.response, version, message):
        if isinstance(piece, bytes):
            joined += piece
        else:
            pieces += [bytes(joined), piece]
            joined = bytearray()
    pieces.append(bytes(joined))
    size = sum(len(piece) if isinstance(piece, bytes) else piece.size_bytes for piece in pieces)
    first = pieces[0]
    assert isinstance(first, bytes)
    return [_INT32.pack(size - _INT32.size) + first[_INT32.size :], *pieces[1:]]


def _skip_tags(reader: WireReader) -> None:
    for _ in range(reader.unsigned_varint()):
        reader.unsigned_varint()
        reader.claim(1)
        reader.array(reader.unsigned_varint())

"""A client of Kafka's protocol with the tables of format/protocol: requests as bytes, and responses as messages."""

import socket
import struct

from tests.support.product import API_VERSIONS, WireReader, apis, encode_pieces, read_fields

APIS = {api.name: api for api in apis().values()}


def request_frame(name, version, correlation_id, message, client_id="test", api=None, after=b""):
    """The frame of a request; the bytes `after` follow its fields."""
    api = api or APIS[name]
    client = b"\xff\xff" if client_id is None else struct.pack(">h", len(client_id.encode())) + client_id.encode()
    head = struct.pack(">hhi", api.key, version, correlation_id) + client
    if version in api.request.flexible:
        head += b"\0"
    body = b"".join(encode_pieces(api.request, version, message)) + after
    return struct.pack(">i", len(head) + len(body)) + head + body


def response_of(name, version, frame, api=None):
    """(correlation id, message) of a response without its size; all bytes must be used."""
    api = api or APIS[name]
    reader = WireReader(frame)
    correlation = reader.integer("int32")
    if version in api.response.flexible and api.key != API_VERSIONS:
        assert reader.unsigned_varint() == 0
    message = read_fields(api.response, version, reader)
    assert reader.remaining == 0
    return correlation, message


class KafkaClient:
    """A connection to a broker. The bytes `after` follow the fields of each request."""

    def __init__(self, address, timeout=120, apis=None, after=b""):
        self._apis = {api.name: api for api in (apis or {}).values()}
        self.socket = socket.create_connection(address, timeout)
        self._correlation = 0
        self._after = after

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def ask(self, name, version, **message):
        """The response of a request."""
        self._correlation += 1
        api = self._apis.get(name)
        self.socket.sendall(request_frame(name, version, self._correlation, message, api=api, after=self._after))
        correlation, response = response_of(name, version, self.frame(), api)
        assert correlation == self._correlation
        return response

    def frame(self):
        """The next frame without its size. Raises ConnectionError at the end of the stream."""
        return self.exactly(struct.unpack(">i", self.exactly(4))[0])

    def exactly(self, size):
        """The next `size` bytes."""
        data = bytearray()
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise ConnectionError(f"the stream ended after {len(data)} of {size} bytes")
            data += part
        return bytes(data)

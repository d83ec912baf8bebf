"""A ProduceRequest with bytes that are given, sent to a broker as a client would: version 3, which all brokers know."""

import socket
import struct
import time

import crc32c

from tests.support.naive_reader import read_batches

PRODUCE, VERSION = 0, 3
NONE, NOT_LEADER_OR_FOLLOWER, OUT_OF_ORDER_SEQUENCE_NUMBER = 0, 6, 45
LEADER_SECONDS = 180


def last_batch_of(partition, producer_id):
    """(its base offset, its bytes as the producer would have sent them)."""
    found = []
    for path in sorted(partition.glob("*.log")):
        data = path.read_bytes()
        found += [(batch, data) for batch in read_batches(data) if batch.producer_id == producer_id]
    batch, data = found[-1]
    sent = bytearray(data[batch.position : batch.position + batch.size_bytes])
    sent[:8], sent[12:16] = bytes(8), b"\xff" * 4  # offset and leader epoch are the broker's, and not in the checksum
    return batch.base_offset, bytes(sent)


def changed(batch, sequence=0, epoch=0):
    """The batch with so much added to its base sequence and its producer's epoch."""
    data = bytearray(batch)
    (old_epoch, old_sequence) = struct.unpack_from(">hi", data, 51)
    struct.pack_into(">hi", data, 51, old_epoch + epoch, old_sequence + sequence)
    struct.pack_into(">I", data, 17, crc32c.crc32c(bytes(data[21:])))
    return bytes(data)


def _string(text):
    return struct.pack(">h", len(text)) + text.encode()


def produce(address, topic, batch):
    """(error code, base offset) that the broker answers for partition 0.

    A broker that has just started does not lead its partitions yet. A client asks again then, and so does this function."""
    deadline = time.monotonic() + LEADER_SECONDS
    while True:
        answer = _produce_once(address, topic, batch)
        if answer[0] != NOT_LEADER_OR_FOLLOWER or time.monotonic() > deadline:
            return answer
        time.sleep(0.1)


def _produce_once(address, topic, batch):
    body = struct.pack(">hhi", -1, -1, 10_000)  # no transactional id, acks of all, timeout
    body += struct.pack(">i", 1) + _string(topic) + struct.pack(">iii", 1, 0, len(batch)) + batch
    request = struct.pack(">hhi", PRODUCE, VERSION, 7) + _string("raw") + body
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=LEADER_SECONDS) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as answer:
            size = struct.unpack(">i", answer.read(4))[0]
            found = answer.read(size)
    at = 4 + 4 + 2 + len(topic) + 4 + 4  # correlation, one topic, its name, one partition, its number
    return struct.unpack_from(">hq", found, at)

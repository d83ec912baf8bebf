"""A small log directory with every kind of file, in memory, and a command run on it in this process."""

from __future__ import annotations

import struct
import traceback
from typing import Any, NamedTuple

from crc32c import crc32c

from tests.damage.makers import CONTROL, START_MS, TRANSACTIONAL, batch, record
from tests.support.commands import kafkalog
from tests.support.faulty_fs import FaultyFilesystem
from tests.support.product import ExitCode

ROOT = "/logs"
PARTITION = f"{ROOT}/topic-0"
NOW_MS = START_MS + 86_400_000
TOPIC_ID = "abcdefghijklmnopqrstuA"


def segment(base_offset: int, epoch: int) -> dict[str, bytes]:
    """A segment of 17 offsets: five batches of three records by producer 7, then an aborted transaction of producer 9."""
    entries, offset = [], base_offset
    for number in range(5):
        records = [record(i, b"key-%d" % i, b"value " * 9, ms=i) for i in range(3)]
        sequence = offset - base_offset + (15 if base_offset else 0)
        entries.append((offset + 2, _batch(offset, records, epoch, codec=number, producer=(7, 0, sequence))))
        offset += 3
    aborted = [record(0, b"key-9", b"aborted")]
    marker = [record(0, struct.pack(">hh", 0, 0), struct.pack(">hi", 0, 5))]
    transaction = (epoch, TRANSACTIONAL, (9, epoch, 0)), (epoch, TRANSACTIONAL | CONTROL, (9, epoch, -1))
    for records, (leader_epoch, attributes, producer) in zip((aborted, marker), transaction, strict=True):
        entries.append((offset, _batch(offset, records, leader_epoch, attributes=attributes, producer=producer)))
        offset += 1
    data, offset_index, time_index = b"", b"", b""
    for number, (last_offset, entry) in enumerate(entries):
        if number % 2:
            offset_index += struct.pack(">ii", last_offset - base_offset, len(data))
        if number % 2 or (number == 6 and not base_offset):  # closing a segment adds the last timestamp
            time_index += struct.pack(">qi", START_MS + 1000 * last_offset, last_offset - base_offset)
        data += entry
    name = f"{PARTITION}/{base_offset:020d}"
    return {
        f"{name}.log": data,
        f"{name}.index": offset_index,
        f"{name}.timeindex": time_index,
        f"{name}.txnindex": struct.pack(">hqqqq", 0, 9, offset - 2, offset - 1, offset),
    }


def _batch(offset: int, records: list[bytes], epoch: int, **rest: Any) -> bytes:
    ms = START_MS + 1000 * offset
    return batch(offset, records, epoch=epoch, base_ms=ms, max_ms=ms + 1000 * (len(records) - 1), **rest)


def snapshot(next_offset: int) -> bytes:
    """What the producers of the first segment had written."""
    seven = struct.pack(">qhiqiqiq", 7, 0, 14, next_offset - 3, 2, START_MS + 1000 * (next_offset - 3), -1, -1)
    nine = struct.pack(">qhiqiqiq", 9, 0, -1, -1, 0, START_MS + 1000 * (next_offset - 1), 5, -1)
    body = struct.pack(">i", 2) + seven + nine
    return struct.pack(">hI", 1, crc32c(body)) + body


def checkpoint(offset: int) -> bytes:
    return b"0\n1\ntopic 0 %d\n" % offset


FILES: dict[str, bytes] = {
    **segment(0, 0),
    **segment(17, 3),
    f"{PARTITION}/{17:020d}.snapshot": snapshot(17),
    f"{PARTITION}/leader-epoch-checkpoint": b"0\n2\n0 0\n3 17\n",
    f"{PARTITION}/partition.metadata": b"version: 0\ntopic_id: " + TOPIC_ID.encode(),
    f"{ROOT}/recovery-point-offset-checkpoint": checkpoint(17),
    f"{ROOT}/replication-offset-checkpoint": checkpoint(30),
    f"{ROOT}/log-start-offset-checkpoint": checkpoint(0),
    f"{ROOT}/cleaner-offset-checkpoint": checkpoint(3),
    f"{ROOT}/meta.properties": b"version=1\nnode.id=1\ncluster.id=abcdefghijklmnopqrstuv\ndirectory.id="
    + TOPIC_ID.encode(),
    f"{ROOT}/.kafka_cleanshutdown": b'{"version":0,"brokerEpoch":5}',
    f"{PARTITION}/quorum-state": b'{"leaderId":1,"leaderEpoch":3,"votedId":-1,"votedDirectoryId":"'
    + TOPIC_ID.encode()
    + b'","data_version":1}',
}
SIDECARS = [path for path in FILES if not path.endswith(".log")]
LAST_LOG = f"{PARTITION}/{17:020d}.log"
FIRST_LOG = f"{PARTITION}/{0:020d}.log"


class Done(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    errors: str


def run_command(argv: list[str], fs: FaultyFilesystem) -> Done:
    """Run a command; whatever it does, it may neither raise nor speak of an internal error."""
    how = {"now_ms": lambda: NOW_MS, "errors": "surrogateescape"}
    try:
        code, out, errors = kafkalog(*argv, fs=fs, **how)
    except BaseException as error:
        raise AssertionError(f"{argv}: {''.join(traceback.format_exception(error))}") from error
    assert code in list(ExitCode)
    return Done(code, out, errors)

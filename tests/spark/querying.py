"""Queries through the real command, `kafkalog sql`, and logs to ask."""

import json
import struct

import crc32c

from tests.support.commands import kafkalog
from tests.support.logs import BASE_TIME_MS, R, batch_v2


def sql(path, query, *options, out=None):
    return kafkalog("sql", *(path if isinstance(path, list) else [path]), query, *options, stdout=out)


def rows(path, query, *options, some_undecoded=False):
    """The rows, each as its values in order; bytes as bytes. `some_undecoded`: warnings name values that are null."""
    code, out, err = sql(path, query, "--format", "json", *options)
    wanted = (3, {"undecoded"}) if some_undecoded else (0, set())
    assert (code, {json.loads(line)["kind"] for line in err.splitlines()}) == wanted, err
    *lines, summary = map(json.loads, out.splitlines())
    assert summary == {
        "schema": "kafkalog.summary/1", "type": "summary", "rows": len(lines), "more_rows": summary["more_rows"],
        "exit_code": code,
    }  # fmt: skip
    return [tuple(plain(one) for one in line["row"].values()) for line in lines]


def plain(value):
    if isinstance(value, dict) and set(value) == {"encoding", "data"}:
        assert value["encoding"] == "utf-8"
        return value["data"].encode()
    return value


ORDERS = [
    R(0, BASE_TIME_MS, b"a", b"one", ((b"h", b"1"), (b"g", None))), R(1, BASE_TIME_MS + 1, b"b", b"two"),
    R(2, BASE_TIME_MS + 2, b"a", None), R(3, BASE_TIME_MS + 3, None, b"four"), R(4, BASE_TIME_MS + 4, b"c", b""),
]  # fmt: skip
OTHER = [R(0, BASE_TIME_MS, b"a", b"x"), R(1, BASE_TIME_MS + 9, b"z", b"y")]


def log(folder, topic, data, partition=0):
    (folder / f"{topic}-{partition}").mkdir(parents=True)
    (folder / f"{topic}-{partition}" / f"{0:020d}.log").write_bytes(data)
    return folder


def log_of_unreadable_records(folder):
    """A topic orders with one batch: a good header and CRC over bytes that no decompressor takes."""
    good = batch_v2([R(i, BASE_TIME_MS, b"k", b"v" * 50) for i in range(7)], 4)
    tail = good[21:61] + b"no frame of zstd at all"
    return log(folder, "orders", struct.pack(">qiibI", 0, len(tail) + 9, 0, 2, crc32c.crc32c(tail)) + tail)


def check_counting_decompresses_nothing(folder, *engine, offset="offset"):
    """Ask for a `log_of_unreadable_records`; `offset` is the column's name in the dialect of the engine."""
    assert rows(folder, f"select count(*), max({offset}), count(distinct codec) from orders", *engine) == [(7, 6, 1)]
    assert rows(folder, "select count(*) from (select * from orders)", *engine) == [(7,)]
    code, out, err = sql(folder, "select count(key) from orders", *engine)
    assert (code, out) == (4, "")
    assert err.startswith(f"kafkalog: {folder}/orders-0/{0:020d}.log: at byte 0: ")
    assert err.count("\n") == 1
    assert rows(folder, "select count(key) from orders", "--mode", "dropmalformed", *engine) == [(0,)]
    told = rows(folder, f"select key, {offset}, _fault from orders", "--mode", "permissive", *engine)
    assert [found[:2] for found in told] == [(None, 0)]
    assert "at byte 0" in told[0][2]


def make_shop(folder):
    """Topics orders (two batches, lz4 and none), my-topic, a.b and topics."""
    log(folder, "orders", batch_v2(ORDERS[:3], 3) + batch_v2(ORDERS[3:], producer=(9, 1, 4), epoch=2))
    log(folder, "my-topic", batch_v2(OTHER))
    log(folder, "a.b", batch_v2(OTHER[:1]))
    log(folder, "topics", batch_v2(OTHER[:1]))
    (folder / "orders-0.0123456789abcdef0123456789abcdef-delete").mkdir()
    (folder / "orders-0.0123456789abcdef0123456789abcdef-delete" / f"{0:020d}.log").write_bytes(batch_v2(OTHER))
    return folder

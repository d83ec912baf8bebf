"""A server of `kafkalog serve` in a thread of the test, and the records that `kafkalog read` prints."""

import base64
import threading
from contextlib import contextmanager

from tests.support.commands import json_of
from tests.support.product import Context, DamageAnswer, ServeOptions, Serving

SECONDS = 120


@contextmanager
def serving(*paths, on_damage="stop", context=None, **options):
    """A running server; `notes` collects its reports. Its threads have ended after the block."""
    notes = []
    made = ServeOptions([str(path) for path in paths], port=0, on_damage=DamageAnswer(on_damage), **options)
    with Serving(context or Context(), made, notes.append) as server:
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            assert server.committed.wait(SECONDS)
            server.notes = notes  # type: ignore[attr-defined]
            yield server
        finally:
            server.stop()
            thread.join(SECONDS)
            assert not thread.is_alive()


def read_records(log_dir, topic, *, committed=False, code=0):
    """{partition: [(offset, key, value)]} of `kafkalog read`, keys and values as bytes."""
    isolation = "read_committed" if committed else "read_uncommitted"
    found, lines, errors = json_of("read", log_dir, "--topic", topic, "--isolation", isolation)
    assert found == code, errors
    return in_records((one for one in lines if one["type"] == "record"), "partition")


def in_records(objects, *place):
    """{place: [(offset, key, value)]} of records in JSON; `place` names the fields of a record's place."""
    found = {}
    for one in objects:
        at = tuple(one[name] for name in place) if len(place) > 1 else one[place[0]]
        found.setdefault(at, []).append((one["offset"], _data(one["key"]), _data(one["value"])))
    return found


def _data(field):
    """The bytes of a key or value of JSON output."""
    if field is None:
        return None
    return field["data"].encode() if field["encoding"] == "utf-8" else base64.b64decode(field["data"])

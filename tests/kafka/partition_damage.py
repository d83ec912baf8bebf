"""Damage to a partition directory as a crash or a disk leaves it: each function returns the offsets that it costs.

What a function returns is `range(first, end)` of the offsets of batches that cannot be had any more, by the header of
each batch as it was before, not by what any reader makes of the damage.
"""

import random
import shutil
import struct
from typing import NamedTuple

NOTHING = range(0)
BATCH_HEADER = struct.Struct(">qiibIhiqqqhiI")


class BatchPlace(NamedTuple):
    position: int
    size_bytes: int
    base_offset: int
    last_offset: int


def logs(directory):
    """The .log files, oldest first."""
    return sorted(directory.glob("*.log"))


def batches(log):
    """Where the batches (magic 2) of a sound file are."""
    content = log.read_bytes()
    places, position = [], 0
    while position < len(content):
        fields = BATCH_HEADER.unpack_from(content, position)
        size_bytes = fields[1] + 12
        places.append(BatchPlace(position, size_bytes, fields[0], fields[0] + fields[6]))
        position += size_bytes
    return places


def cost(*places):
    return range(places[0].base_offset, places[-1].last_offset + 1)


def overwrite(path, position, data):
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def flip(path, position):
    overwrite(path, position, bytes([path.read_bytes()[position] ^ 0x10]))


# -- the log


def torn_tail(directory):
    last = batches(logs(directory)[-1])[-1]
    with logs(directory)[-1].open("r+b") as file:
        file.truncate(last.position + last.size_bytes // 2)
    return cost(last)


def flip_in_last_batch(directory):
    last = batches(logs(directory)[-1])[-1]
    flip(logs(directory)[-1], last.position + last.size_bytes - 3)
    return cost(last)


def garbage_tail(directory):
    with logs(directory)[-1].open("ab") as file:
        file.write(random.Random(1).randbytes(100))
    return NOTHING


def zero_tail(directory):
    with logs(directory)[-1].open("ab") as file:
        file.write(bytes(5000))
    return NOTHING


def torn_last_of_several(directory):
    """The last batch torn and the indexes of the active segment gone: a crash before they were written."""
    lost = torn_tail(directory)
    for suffix in (".index", ".timeindex"):
        logs(directory)[-1].with_suffix(suffix).unlink()
    return lost


def flip_in_first_segment(directory):
    """Damage with valid batches behind it."""
    place = batches(logs(directory)[0])[1]
    flip(logs(directory)[0], place.position + place.size_bytes - 3)
    return cost(place)


# -- what can be made from the log


def no_indexes(directory):
    for pattern in ("*.index", "*.timeindex", "*.txnindex"):
        for path in directory.glob(pattern):
            path.unlink()
    return NOTHING


def garbage_indexes(directory):
    for suffix in (".index", ".timeindex"):
        path = logs(directory)[0].with_suffix(suffix)
        path.write_bytes(random.Random(suffix).randbytes(97))
    return NOTHING


def no_index_of_the_active_segment(directory):
    logs(directory)[-1].with_suffix(".index").unlink()
    logs(directory)[-1].with_suffix(".timeindex").unlink()
    return NOTHING


def no_index_of_a_closed_segment(directory):
    logs(directory)[0].with_suffix(".index").unlink()
    return NOTHING


def no_txn_indexes(directory):
    """Without them a broker serves aborted records to those who read committed ones."""
    indexes = list(directory.glob("*.txnindex"))
    assert any(path.stat().st_size for path in indexes)
    for path in indexes:
        path.unlink()
    return NOTHING


def garbage_snapshots(directory):
    for path in directory.glob("*.snapshot"):
        path.write_bytes(random.Random(path.name).randbytes(60))
    return NOTHING


def no_snapshots_and_epochs(directory):
    for path in [*directory.glob("*.snapshot"), directory / "leader-epoch-checkpoint"]:
        path.unlink(missing_ok=True)
    return NOTHING


# -- what a cleaner leaves that was stopped


def leftover_swap(directory):
    """The cleaned segment is complete and renamed to .swap, the old one still there."""
    for suffix in (".log", ".index", ".timeindex"):
        path = logs(directory)[1].with_suffix(suffix)
        shutil.copyfile(path, path.with_name(path.name + ".swap"))
    return NOTHING


def leftover_cleaned(directory):
    """A cleaned segment that was not complete."""
    for suffix in (".log", ".index"):
        path = logs(directory)[0].with_suffix(suffix)
        path.with_name(path.name + ".cleaned").write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return NOTHING


def leftover_deleted(directory):
    """A file of a segment that was deleted, and would have been unlinked a minute later."""
    path = logs(directory)[0]
    shutil.copyfile(path, path.with_name(path.name + ".deleted"))
    return NOTHING

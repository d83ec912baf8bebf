"""Records and logs of `__consumer_offsets` for tests."""

import struct

from tests.support.logs import R, batch_v2
from tests.support.product import encode_message


def key(kind, name, **fields):
    return struct.pack(">h", kind) + encode_message(name, 0, fields)


def value(version, name, /, **fields):
    return struct.pack(">h", version) + encode_message(name, version, fields)


def commit_key(group, topic="orders", partition=0):
    return key(1, "OffsetCommitKey", group=group, topic=topic, partition=partition)


def commit(offset, time_ms=77, **more):
    fields = {"offset": offset, "leaderEpoch": 5, "metadata": "m", "commitTimestamp": time_ms, **more}
    return value(3, "OffsetCommitValue", **fields)


def group_key(group):
    return key(2, "GroupMetadataKey", group=group)


def classic_group(generation, members=(), time_ms=77):
    """A group of consumers without a protocol of assignment; `members` are ids."""
    made = [
        {
            "memberId": one, "groupInstanceId": None, "clientId": "client", "clientHost": "/10.0.0.1",
            "rebalanceTimeout": 1, "sessionTimeout": 1, "subscription": b"", "assignment": b"",
        }
        for one in members
    ]  # fmt: skip
    return value(
        3, "GroupMetadataValue", protocolType="consumer", generation=generation, protocol="range", leader=None,
        currentStateTimestamp=time_ms, members=made,
    )  # fmt: skip


def coordinator_partition_at(log_dir, number, batches, topic="__consumer_offsets", base=0, epoch=None):
    """Write a partition of one segment; `epoch`: its leader-epoch-checkpoint."""
    folder = log_dir / f"{topic}-{number}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{base:020d}.log").write_bytes(b"".join(batches))
    if epoch is not None:
        (folder / "leader-epoch-checkpoint").write_text(f"0\n1\n{epoch} {base}\n")
    return folder


def commits(*records, base=0, time_ms=1_700_000_000_000):
    """A batch per (key, value), at the offsets from `base` on."""
    return [batch_v2([R(base + at, time_ms + at, *record)]) for at, record in enumerate(records)]

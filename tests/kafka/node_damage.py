"""Damage to a node's log directory, and states of it that a hand or a copy leaves. Each kind is `kind(chance, data)`.

A kind that finds nothing to change leaves the directory as it is. The kinds are grouped by what they change.
"""

import itertools
import os
import re
import shutil
import uuid

from tests.kafka.file_damage import EPOCH_FILES, PARTITION_METADATA
from tests.kafka.nodes import METADATA
from tests.support.logs import BASE_TIME_MS, R, batch_v2
from tests.support.metadata_logs import directory as directory_id
from tests.support.metadata_logs import partition, topic_id, value
from tests.support.naive_reader import read_batches

CHECKPOINTS = ("recovery-point", "log-start", "replication", "cleaner")
MALFORMED = (
    b"",
    b"0\n",
    b"0\n1\nx\n",
    b"\xff\xfe",
    b"0\n2\norders 0 1\n",
    b"0\n1\norders 0 99999999999999999999\n",
    b"1\n0\n",
)
ID = "Zm9ydHktdHdvLWZvcnR5IQ"
HEX = "0123456789abcdef" * 2


# -- files


def garble(chance, path):
    """Change the bytes of a file in one of the ways of disks and hands."""
    data = bytearray(path.read_bytes())
    kind = chance.choice(["flip", "flip", "flip", "cut", "zeros", "zero tail", "random", "empty", "more"])
    if kind == "flip" and data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    elif kind == "cut":
        del data[chance.randrange(len(data) + 1) :]
    elif kind == "zeros":
        data[:] = bytes(len(data))
    elif kind == "zero tail":
        at = chance.randrange(len(data) + 1)
        data[at:] = bytes(len(data) - at)
    elif kind == "random":
        data[:] = chance.randbytes(min(len(data), 300) or 40)
    elif kind == "empty":
        data.clear()
    elif kind == "more":
        data += chance.choice([bytes(100), chance.randbytes(100)])
    path.write_bytes(data)


def lose(chance, path):
    path.unlink()


def some(chance, folder, *patterns):
    """A file that fits; None if there is none."""
    found = sorted({path for pattern in patterns for path in folder.glob(pattern) if path.is_file()})
    return chance.choice(found) if found else None


def partitions(data):
    return sorted(path for path in data.iterdir() if re.fullmatch(r"[a-z_]+-\d+", path.name) and path.name != METADATA)


def one_partition(chance, data):
    found = partitions(data)
    users = [path for path in found if not path.name.startswith("__")]
    return chance.choice(users if users and chance.random() < 0.8 else found or [data / METADATA])


# -- root files


def meta_properties(chance, data):
    path = data / "meta.properties"
    lines = [line for line in path.read_text(errors="replace").splitlines() if not line.startswith("#")]
    fields = dict(line.split("=", 1) for line in lines if "=" in line)
    change = chance.choice([
        {"cluster.id": "b3RoZXItY2x1c3Rlci0wMQ"}, {"cluster.id": None}, {"cluster.id": ""}, {"node.id": "2"}, {"node.id": None},
        {"node.id": "-1"}, {"node.id": "99999999999"}, {"node.id": "one"}, {"node.id": " 1"}, {"directory.id": None},
        {"directory.id": ID}, {"directory.id": ID}, {"directory.id": "short"}, {"directory.id": "AAAAAAAAAAAAAAAAAAAAAA"},
        {"directory.id": "AAAAAAAAAAAAAAAAAAAAAQ"}, {"directory.id": ""}, {"version": "0"}, {"version": "2"}, {"version": None},
        {"version": "x"}, {"version": "0", "node.id": None, "broker.id": "1"}, {"broker.id": "1"}, {"broker.id": "7"},
        {"version": "0", "node.id": None, "broker.id": "1", "directory.id": None},
    ])  # fmt: skip
    fields = {name: text for name, text in (fields | change).items() if text is not None}
    path.write_text("".join(f"{name}={text}\n" for name, text in fields.items()))


def meta_properties_bytes(chance, data):
    path = data / "meta.properties"
    chance.choice([garble, lose])(chance, path)


def checkpoint(chance, data):
    path = data / f"{chance.choice(CHECKPOINTS)}-offset-checkpoint"
    kind = chance.choice(["malformed", "malformed", "lose", "garble", "beyond", "unknown"])
    if kind == "malformed" or not path.exists():
        path.write_bytes(chance.choice(MALFORMED))
    elif kind in ("lose", "garble"):
        {"lose": lose, "garble": garble}[kind](chance, path)
    else:
        topic, offset = ("orders", 10**6) if kind == "beyond" else ("unknown", 3)
        path.write_text(f"0\n1\n{topic} 0 {offset}\n")


def clean_shutdown(chance, data):
    path = data / ".kafka_cleanshutdown"
    if not path.exists():
        path.write_bytes(chance.choice([b"", b'{"version":0,"brokerEpoch":-1}', b'{"version":0,"brokerEpoch":7}']))
    elif chance.random() < 0.5:
        path.unlink()
    else:
        garble(chance, path)


def bootstrap_checkpoint(chance, data):
    chance.choice([garble, lose])(chance, data / "bootstrap.checkpoint")


def root_names(chance, data):
    """Files of unknown names in the log directory, and of names that are Kafka's elsewhere."""
    name = chance.choice([
        "notes.txt", "meta.properties.tmp", "recovery-point-offset-checkpoint.tmp", "quorum-state", "x.log", ".lock2",
        "00000000000000000000.log", "00000000000000000000-0000000000.checkpoint", "bootstrap.checkpoint.tmp",
    ])  # fmt: skip
    (data / name).write_bytes(chance.choice([b"", b"x", chance.randbytes(100)]))


# -- the metadata log


def metadata_bytes(chance, data):
    path = some(chance, data / METADATA, "*.log")
    if path:
        garble(chance, path)


def metadata_flip(chance, data):
    """A bit of a record batch."""
    path = some(chance, data / METADATA, "*.log")
    content = bytearray(path.read_bytes()) if path else b""
    if content:
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        path.write_bytes(content)


def metadata_tail(chance, data):
    """The last segment ends within a batch, in zeros or in garbage."""
    path = max((data / METADATA).glob("*.log"), default=None)
    if path:
        content = path.read_bytes()
        cut = content[: max(0, len(content) - chance.randrange(1, 200))]
        path.write_bytes(chance.choice([cut, content + bytes(500), content + chance.randbytes(80), cut + bytes(100)]))


def metadata_lost_files(chance, data):
    path = some(chance, data / METADATA, "*.log", "*.index", "*.timeindex", "*.snapshot", "leader-*", "partition.*")
    if path:
        chance.choice([lose, garble])(chance, path)


def metadata_index(chance, data):
    path = some(chance, data / METADATA, "*index", "*.snapshot")
    if path:
        chance.choice([lose, garble])(chance, path)


def metadata_epochs(chance, data):
    (data / METADATA / "leader-epoch-checkpoint").write_bytes(chance.choice(EPOCH_FILES))


def metadata_topic_id(chance, data):
    (data / METADATA / "partition.metadata").write_bytes(chance.choice(PARTITION_METADATA))


def metadata_records(chance, data):
    """One more batch, with a right CRC, that a controller applies or cannot apply."""
    path = max((data / METADATA).glob("*.log"), default=None)
    batches = [*read_batches(path.read_bytes())] if path else []
    if not batches:
        return
    offset, epoch = batches[-1].last_offset + 1, batches[-1].leader_epoch
    one = topic_id(77)
    topic = value("TopicRecord", name="made", topicId=one)
    broker = {"brokerId": 9, "brokerEpoch": 5}
    values = chance.choice([
        [topic, partition(one)], [topic, partition(one, directories=[directory_id(1)])], [topic], [topic, topic],
        [value("TopicRecord", name="orders", topicId=one)], [partition(topic_id(78))], [topic[:-3]], [topic + b"\0\0"],
        [b"\x01\xbf\x07\0"], [b"\x01\x02\x63"], [b"\x07\x02\x00"], [b""], [None], [b"\0"],
        [value("RemoveTopicRecord", topicId=topic_id(79))], [value("FenceBrokerRecord", id=9, epoch=5)],
        [value("UnregisterBrokerRecord", **broker)], [value("BrokerRegistrationChangeRecord", 0, **broker, fenced=-1)],
        [value("FeatureLevelRecord", name="metadata.version", featureLevel=99)],
        [value("FeatureLevelRecord", name="metadata.version", featureLevel=1)],
        [value("FeatureLevelRecord", name="no.such.feature", featureLevel=3)],
        [value("FeatureLevelRecord", name="group.version", featureLevel=77)],
        [value("ConfigRecord", resourceType=2, resourceName="orders", name="retention.ms", value="777000")],
        [value("ConfigRecord", resourceType=2, resourceName="orders", name="retention.ms", value="soon")],
        [value("ConfigRecord", resourceType=2, resourceName="nobody", name="no.such", value="1")],
        [value("PartitionChangeRecord", 0, topicId=topic_id(78), partitionId=0, leader=1)],
        [value("NoOpRecord")], [value("ProducerIdsRecord", **broker, nextProducerId=5000)],
        [value("EndTransactionRecord")], [value("BeginTransactionRecord", name="x")],
    ])  # fmt: skip
    records = [R(offset + at, BASE_TIME_MS, None, one) for at, one in enumerate(values)]
    with path.open("ab") as file:
        file.write(batch_v2(records, epoch=epoch))


def metadata_snapshot(chance, data):
    path = some(chance, data / METADATA, "*.checkpoint")
    if path:
        chance.choice([garble, garble, lose])(chance, path)


def metadata_snapshot_newest(chance, data):
    path = max((data / METADATA).glob("*.checkpoint"), default=None)
    if path:
        chance.choice([garble, lose])(chance, path)


def metadata_snapshots_lost(chance, data):
    for path in (data / METADATA).glob("*.checkpoint"):
        path.unlink()


def metadata_snapshot_names(chance, data):
    """A snapshot under another name, or a file whose name is nearly that of one."""
    found = sorted((data / METADATA).glob("*.checkpoint"))
    content = found[-1].read_bytes() if found else b""
    name = chance.choice([
        "5-1.checkpoint", "00000000000000000000.checkpoint", "x.checkpoint", f"{10**6:020}-0000000001.checkpoint",
        f"{3:020}-0000000001.checkpoint", f"{3:020}-0000000000.checkpoint", f"{40:020}-0000000009.checkpoint",
        f"{7:020}-0000000001.checkpoint.part", f"{7:020}-0000000001.checkpoint.deleted", f"{7:020}-1.checkpoint",
    ])  # fmt: skip
    if found and chance.random() < 0.4:
        found[-1].rename(data / METADATA / name)
    else:
        (data / METADATA / name).write_bytes(content)


def metadata_log_names(chance, data):
    path = some(chance, data / METADATA, "*.log")
    if path:
        to = chance.choice([f"{int(path.stem) + chance.choice([1, 1000]):020}.log", "copy.log", path.name + ".bak"])
        path.rename(path.with_name(to))


def metadata_first_segments_lost(chance, data):
    """The log begins above 0 (or more above it) after this, as the snapshot allows or not."""
    bases = sorted(int(path.stem) for path in (data / METADATA).glob("*.log") if path.stem.isdigit())
    for base in bases[: chance.randrange(1, len(bases) + 1)] if bases else []:
        for path in (data / METADATA).glob(f"{base:020}.*"):
            path.unlink()


def quorum_state(chance, data):
    path = data / METADATA / "quorum-state"
    text = path.read_text()
    kind = chance.choice(["garble", "lose", "epoch", "leader", "voter", "version", "cluster", "voted", "unknown"])
    if kind == "garble":
        garble(chance, path)
    elif kind == "lose":
        lose(chance, path)
    else:
        epoch = chance.choice([0, 1, 9, 10**6, -1])
        old, new = {
            "epoch": (r'"leaderEpoch":-?\d+', f'"leaderEpoch":{epoch}'),
            "leader": (r'"leaderId":-?\d+', f'"leaderId":{chance.choice([-1, 2, 7])}'),
            "voter": (r'"voterId":\d+', '"voterId":2'),
            "version": (r'"data_version":\d', f'"data_version":{chance.choice([0, 1, 2, 9])}'),
            "cluster": (r'"clusterId":"[^"]*"', '"clusterId":"b3RoZXItY2x1c3Rlci0wMQ"'),
            "voted": (r'"votedId":-?\d+', f'"votedId":{chance.choice([1, 2])}'),
            "unknown": (r"\{", '{"unknown":1,'),
        }[kind]
        path.write_text(re.sub(old, new, text, count=1))


def metadata_directory(chance, data):
    path = data / METADATA
    kind = chance.choice(["missing", "missing", "empty", "renamed", "moved in"])
    if kind == "renamed":
        path.rename(data / chance.choice(["__cluster_metadata-1", "__cluster_metadata", f"{METADATA}.{HEX}-stray"]))
    elif kind == "moved in":
        target = data / "old"
        target.mkdir()
        path.rename(target / METADATA)
    else:
        shutil.rmtree(path)
        if kind == "empty":
            path.mkdir()


# -- partitions


def partition_bytes(chance, data):
    path = some(chance, one_partition(chance, data), "*.log")
    if path:
        garble(chance, path)


def partition_file(chance, data):
    path = some(chance, one_partition(chance, data), "*")
    if path:
        chance.choice([garble, garble, lose])(chance, path)


def partition_metadata(chance, data):
    folder = one_partition(chance, data)
    other = one_partition(chance, data) / "partition.metadata"
    path = folder / "partition.metadata"
    if chance.random() < 0.3 and path.exists():
        path.unlink()
    else:
        path.write_bytes(chance.choice([*PARTITION_METADATA, other.read_bytes() if other.is_file() else b""]))


def partition_names(chance, data):
    """Files of unknown names, or names of another segment, in a partition."""
    name = chance.choice([
        "notes.txt", "x.log", f"{99:020}.snapshot", f"{7:020}.log.deleted", "x.swap", "x.cleaned", ".DS_Store", "._x.index",
        f"{10**6:020}.log", f"{0:020}.log.cleaned", f"{99:020}.timeindex", "leader-epoch-checkpoint.tmp",
    ])  # fmt: skip
    path = one_partition(chance, data) / name
    if chance.random() < 0.15:
        path.mkdir(exist_ok=True)
    else:
        path.write_bytes(chance.choice([b"", b"x", chance.randbytes(60)]))


def partition_epochs(chance, data):
    (one_partition(chance, data) / "leader-epoch-checkpoint").write_bytes(chance.choice(EPOCH_FILES))


# -- names of directories


def marked(chance, data):
    """A directory renamed or copied to a name with -future, -delete or -stray."""
    path = one_partition(chance, data)
    target = (
        data
        / f"{path.name}.{chance.choice([HEX, uuid.UUID(int=chance.getrandbits(128)).hex])}-{chance.choice(['future', 'future', 'delete', 'stray'])}"
    )
    if chance.random() < 0.5:
        path.rename(target)
    else:
        shutil.copytree(path, target)


def copied(chance, data):
    """A directory copied or renamed to one that the cluster knows, or does not know."""
    path = one_partition(chance, data)
    name = chance.choice(
        ["orders-7", "other-0", "backup-2024", ".Trash-1000", "quiet-1", "__consumer_offsets-3", "orders-00"]
    )
    if path.is_dir() and not (data / name).exists():
        if chance.random() < 0.5:
            path.rename(data / name)
        else:
            shutil.copytree(path, data / name)


def swapped(chance, data):
    """Two partitions under each other's names."""
    one, other = one_partition(chance, data), one_partition(chance, data)
    if one != other:
        one.rename(data / "between")
        other.rename(one)
        (data / "between").rename(other)


def foreign_directory(chance, data):
    name = chance.choice(
        ["lost+found", "nodash", "orders", "snapshots", "x-0", "backup-2024", ".snapshot", "x_0", "-0", "x--1", ".git"]
    )
    (data / name).mkdir(exist_ok=True)
    if chance.random() < 0.4:
        (data / name / "file").write_bytes(b"x")


def lost_partition(chance, data):
    path = one_partition(chance, data)
    shutil.rmtree(path)
    if chance.random() < 0.4:
        path.mkdir()


# -- permissions: the node runs as another user than root


def owned_by_root(chance, data):
    """A file that root has written, as a tool run by root does."""
    for path in chosen_paths(chance, data):
        os.chown(path, 0, 0)
        path.chmod(
            chance.choice([0o600, 0o600, 0o644, 0o640, 0o400]) if path.is_file() else chance.choice([0o700, 0o755])
        )


def modes(chance, data):
    for path in chosen_paths(chance, data):
        path.chmod(
            chance.choice([0o444, 0o400, 0o000, 0o200])
            if path.is_file()
            else chance.choice([0o555, 0o500, 0o000, 0o311])
        )


def unknown_file(chance, data):
    path = one_partition(chance, data) / chance.choice(["notes.txt", ".DS_Store", "x.bak"])
    path.write_bytes(b"x")
    path.chmod(chance.choice([0o600, 0o000, 0o400]))
    os.chown(path, 0, 0)


def chosen_paths(chance, data):
    """One to three files or directories, those of the root and of the metadata log as often as partitions."""
    folders = [data, data / METADATA, one_partition(chance, data)]
    for folder in chance.sample(folders, chance.choice([1, 1, 1, 2])):
        if folder.is_dir():
            found = sorted(path for path in folder.iterdir() if path.is_file())
            yield folder if chance.random() < 0.2 or not found else chance.choice(found)


FAMILIES = {
    "roots": (meta_properties, meta_properties_bytes, checkpoint, clean_shutdown, bootstrap_checkpoint, root_names),
    "meta": (
        metadata_bytes, metadata_flip, metadata_tail, metadata_lost_files, metadata_index, metadata_epochs, metadata_topic_id,
        metadata_records, metadata_records, metadata_snapshot, metadata_snapshot_newest, metadata_snapshots_lost,
        metadata_snapshot_names, metadata_log_names, metadata_first_segments_lost, quorum_state, quorum_state,
        metadata_directory,
    ),
    "partitions": (partition_bytes, partition_file, partition_metadata, partition_names, partition_epochs),
    "names": (marked, copied, swapped, foreign_directory, lost_partition),
    "perms": (owned_by_root, modes, unknown_file),
}  # fmt: skip
KINDS = {kind.__name__: kind for kind in itertools.chain.from_iterable(FAMILIES.values())}
FAMILY = {kind.__name__: family for family, kinds in FAMILIES.items() for kind in kinds}

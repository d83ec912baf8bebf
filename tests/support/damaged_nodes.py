"""Log directories of single nodes of Kafka 4.2.0 that stopped cleanly, and what may be wrong with their files.

`static` has controller.quorum.voters, `dynamic` controller.quorum.bootstrap.servers (kraft.version 1). Both have the
topics in-a (2 partitions) and in-b. tests/damage holds verify and doctor against the table, tests/kafka real nodes.
"""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.support.archives import FIXTURES, unpack

OTHER_ID = "ZGlyLQAAAAAAAAAHLS0tLQ"
FUTURES = [f"in-a-0.{digit}123456789abcdef0123456789abcdef-future" for digit in "01"]
FLAVOURS = ("static", "dynamic")


class Damage(NamedTuple):
    """What is made of a node's log directory, and what verify finds in it.

    `starts`: whether a node starts, by the flavour of its quorum. `actions` are steps of doctor, by the flavour.
    `mends`: whether the printed commands, done literally, lead to a sound directory.
    """

    make: Callable[[Path], object]
    found: tuple[str | None, str | None]
    starts: tuple[bool, bool] = (False, False)
    actions: tuple[str, str] = ("does-not-start", "does-not-start")
    mends: bool = True


def node(flavour, folder):
    """The log directory of a sound node, `folder`/data."""
    unpack(FIXTURES / "nodes" / f"{flavour}.tar.xz", folder)
    return (folder / flavour).rename(folder / "data")


def meta(pattern, text):
    def make(data):
        path = data / "meta.properties"
        path.write_text(re.sub(pattern, text, path.read_text(), flags=re.MULTILINE))

    return make


def written(name, content):
    return lambda data: (data / name).write_bytes(content)


def removed(name):
    def make(data):
        path = data / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return make


def emptied(name):
    def make(data):
        shutil.rmtree(data / name)
        (data / name).mkdir()

    return make


def of_zookeeper(data):
    path = data / "meta.properties"
    path.write_text("version=0\nbroker.id=1\n" + re.search(r"cluster\.id=.*", path.read_text())[0] + "\n")


def copied(name, *targets):
    return lambda data: [shutil.copytree(data / name, data / target) for target in targets]


def moved(name, target):
    return lambda data: (data / name).rename(data / target)


def made(name):
    return lambda data: (data / name).mkdir(parents=True)


def both(make, found, **more):
    return Damage(make, (found, found), **more)


def starts(make, found, action, **more):
    return both(make, found, starts=(True, True), actions=(action, action), **more)


def other_directory(make):
    """A node of a static quorum starts without leaders, that of a dynamic one waits for the voter with the old id."""
    found = ("directory-id-unknown", "meta-properties-differ")
    return Damage(make, found, (True, False), ("takes-offline", "does-not-start"))


def without_log(make, found):
    actions = ("sets-aside", "does-not-start") if found == "metadata-log-lost" else ("sets-aside", "sets-aside")
    return Damage(make, (found, found), (True, False), actions, mends=False)


DAMAGES = {
    "meta.properties missing": both(removed("meta.properties"), "meta-properties-missing"),
    "meta.properties empty": both(written("meta.properties", b""), "meta-properties"),
    "meta.properties of zeros": both(written("meta.properties", bytes(122)), "meta-properties"),
    "meta.properties of garbage": both(written("meta.properties", bytes(range(128, 250))), "meta-properties"),
    "node.id of another node": both(meta(r"^node.id=.*", "node.id=2"), "meta-properties-differ"),
    "node.id below 0": both(meta(r"^node.id=.*", "node.id=-1"), "meta-properties-differ"),
    "node.id out of range": both(meta(r"^node.id=.*", "node.id=3000000000"), "meta-properties"),
    "node.id missing": both(meta(r"^node.id=.*\n", ""), "meta-properties"),
    "cluster.id missing": both(meta(r"^cluster.id=.*\n?", ""), "meta-properties"),
    "version 2": both(meta(r"^version=.*", "version=2"), "meta-properties"),
    "version missing": both(meta(r"^version=.*\n", ""), "meta-properties"),
    "directory.id that is none": both(meta(r"^directory.id=.*", "directory.id=hello"), "meta-properties"),
    "directory.id missing": other_directory(meta(r"^directory.id=.*\n", "")),
    "directory.id of another disk": other_directory(meta(r"^directory.id=.*", f"directory.id={OTHER_ID}")),
    "meta.properties of ZooKeeper": other_directory(of_zookeeper),
    "metadata log missing": without_log(removed("__cluster_metadata-0"), None),
    "metadata log empty": without_log(emptied("__cluster_metadata-0"), "metadata-log-lost"),
    "quorum-state of garbage": both(written("__cluster_metadata-0/quorum-state", b"x"), "quorum-state-damaged"),
    "all segments of the metadata log empty": Damage(
        lambda data: [path.write_bytes(b"") for path in (data / "__cluster_metadata-0").glob("*.log")],
        ("metadata-log", "metadata-log-lost"),
        (False, True),
        ("does-not-start", "sets-aside"),
        mends=False,
    ),
    "a file in the place of the metadata log": both(
        lambda data: [shutil.rmtree(data / "__cluster_metadata-0"), (data / "__cluster_metadata-0").touch()],
        "metadata-log-lost",
        mends=False,
    ),
    "a file like a snapshot": both(written("__cluster_metadata-0/5-1.checkpoint", b"x"), "bad-name"),
    "a snapshot without an epoch": both(written(f"__cluster_metadata-0/{0:020}.checkpoint", b"x"), "bad-name"),
    "a file of a Macintosh": both(written(f"in-a-0/._{0:020}.index", b"x"), "bad-name"),
    "a directory named like a partition": starts(made("backup-2024"), "not-in-metadata", "sets-aside"),
    "a waste basket": starts(made(".Trash-1000/files"), "not-in-metadata", "sets-aside"),
    "a copy under a new number": starts(copied("in-a-0", "in-a-7"), "not-in-metadata", "sets-aside", mends=False),
    "a copy under a new name": starts(copied("in-a-0", "copy-of-in-a-0"), "same-topic-id", "keeps"),
    "a renamed partition": starts(moved("in-a-0", "in-z-0"), "topic-id-differs", "keeps"),
    "the topic id of another topic": starts(
        lambda data: shutil.copy(data / "in-b-0/partition.metadata", data / "in-a-0"), "topic-id-differs", "keeps"
    ),
    "a -future copy beside its partition": both(copied("in-a-0", FUTURES[0]), "twin-directories"),
    "two -future copies": both(copied("in-a-0", *FUTURES), "twin-directories"),
    "a -future copy of another topic": both(
        lambda data: [
            copied("in-a-0", FUTURES[0])(data),
            shutil.copy(data / "in-b-0/partition.metadata", data / FUTURES[0]),
        ],
        "twin-directories",
    ),
    "a -future copy in the place of its partition": starts(
        moved("in-a-0", FUTURES[0]), "marked-directory", "trusts", mends=False
    ),
    "a -future copy without a topic id": starts(
        lambda data: [copied("in-a-0", FUTURES[0])(data), (data / FUTURES[0] / "partition.metadata").unlink()],
        "not-in-metadata",
        "sets-aside",
    ),
}

"""The log directories of the fixtures and of the documentation."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import NamedTuple

from tests.conformance.record import make_writable
from tests.conformance.rows import PARTITION
from tests.support.archives import CORPUS, unpack

ROOT = Path(__file__).parents[2]
SEGMENT = re.compile(r"\d+\.(log|kafka)(\.deleted)?$")
CLONED_AT = 1_795_000_000
IDENTITY = "meta.properties"
STAGES = ("before", "data")
"""Where a case of an archive has its log directory; other cases are a log directory."""


class Source(NamedTuple):
    """An archive or a folder with log directories. `prefix` begins the names of their cases.

    Where there is a reason `left_alone`, only commands run that change nothing.
    """

    path: str
    prefix: str = ""
    left_alone: str = ""


NODES = "tests/kafka/test_node_fuzz.py changes them with the printed commands, and a real node starts on them"
SOURCES = (
    Source("tests/fixtures/corpus/corpus.tar.xz"),
    Source("tests/fixtures/old_releases/old_releases.tar.xz", "old-broker"),
    Source("tests/fixtures/format_switches.tar.xz", "format-switches"),
    Source("tests/fixtures/message_sets/message_sets.tar.xz", "message-sets"),
    Source("tests/fixtures/sidecars", "sidecars"),
    Source(
        "tests/fixtures/recorded_runs.tar.xz", "run", left_alone="tests/crash/test_recorded_runs.py undoes these runs"
    ),
    Source("tests/fixtures/nodes/bases.tar.xz", "node", left_alone=NODES),
    Source("tests/fixtures/nodes/inputs.tar.xz", "node-inputs", left_alone=NODES),
    Source("tests/fixtures/nodes/static.tar.xz", "node", left_alone=NODES),
    Source("tests/fixtures/nodes/dynamic.tar.xz", "node", left_alone=NODES),
    Source("docs/dead-broker.tar.gz", left_alone="tests/docs/test_examples.py repairs it as its page says"),
    Source("docs/example", "docs-example"),
)
LEFT_OUT = {
    r"corpus\.tar\.xz/corpus/[^/]+/(after[^/]*|running)$": "what a broker made of `before`, for tests/golden",
    r"message_sets\.tar\.xz/corpus/[^/]+/kafka$": "what a log cleaner made of `before`, for tests/golden",
    r"cluster\.tar\.xz/broker-\d$": "disks of three hosts, for tests/spark/test_each_host.py",
}
"""Log directories of the sources that are not recorded, and why."""


class Case(NamedTuple):
    """A log directory, and where it is in its source: `tests/fixtures/corpus/corpus.tar.xz/corpus/v0/data`."""

    root: Path
    place: str
    is_changed: bool


def log_directory_of(case):
    """The log directory of a case of an archive."""
    return next((case / stage for stage in STAGES if (case / stage).is_dir()), case)


def unpack_all(target, corpus):
    """Unpack all archives but the corpus; return the log directories by the names of their cases."""
    empty = target / "empty"
    empty.mkdir()
    found = {"empty": Case(empty, "", True)}
    for path, prefix, left_alone in SOURCES:
        if ROOT / path == CORPUS:
            top = corpus.parent
        elif (ROOT / path).is_dir():
            top = shutil.copytree(ROOT / path, target / path)
            make_writable(top)  # a clone has the modes that the umask of its user gave, and the times of its making
            for file in top.rglob("*"):
                os.utime(file, (CLONED_AT, CLONED_AT))
        else:
            top = target / path
            unpack(ROOT / path, top)
        for root in [top, *sorted(one for one in top.rglob("*") if one.is_dir())]:
            inner = root.relative_to(top)
            place = (Path(path) / inner).as_posix()
            if is_log_directory(root) and not any(re.search(pattern, place) for pattern in LEFT_OUT):
                parts = [prefix, *(part for part in inner.parts if part not in ("corpus", *STAGES))]
                found["-".join(filter(None, parts))] = Case(root, place, not left_alone)
    return found


def is_log_directory(path):
    """Whether a directory has segments in its partitions, or the identity of a log directory."""
    partitions = (one for one in path.iterdir() if one.is_dir() and PARTITION.match(one.name))
    return (path / IDENTITY).is_file() or any(
        SEGMENT.match(file.name) for partition in partitions for file in partition.iterdir()
    )

"""The command lines of the record: each command on log directories of the fixtures, in text and in JSON.

The commonest forms are tried on each log directory, of the others each on a share of them (SHARES).
"""

from __future__ import annotations

import re
import shlex
import zlib
from typing import NamedTuple

PARTITION = re.compile(r".+-\d+$")
SIDECARS = (".index", ".timeindex", ".txnindex", ".snapshot")
NOW = ["--now", "2030-01-01T00:00:00Z"]
JSON = ["--format", "json"]
DELETE = ["--config", "cleanup.policy=delete", "--config", "remote.storage.enable=false"]
COMPACT = ["--config", "cleanup.policy=compact", "--config", "remote.storage.enable=false"]
WORDS = {
    "NOW": NOW,
    "DELETE": DELETE,
    "COMPACT": COMPACT,
    "DUCKDB": ["--engine", "duckdb"],
    "CLUSTER": ["--to", "kafka:9092", "--state", "STATE"],
}
"""Words that stand for several."""
EXTRAS = {"sql": "duckdb", "export": "pyarrow", "import": "pyarrow"}
"""What has to be installed for a command."""
SHARES = {"sql": 16, "export": 16, "metadump": 8, "replay": 8}
"""Of so many cases, one has a row that begins with the command. It takes longer than others, and quick has 6 minutes."""
IN_USE = "clean-"
"""Begins the names of cases whose copies for writers have modes and links, as `record.put_in_use` makes them."""

# Command lines that run one after the other are parted by semicolons. A row that ends with * is two: text and JSON.
# D is the log directory, P a partition of it, TOPIC its topic, MIDDLE an offset in its middle.
DIRECTORY_READERS = """
ls D *
ls D --segments *
ls D --topics *
ls D --freeable NOW *
verify D NOW --level quick *
verify D NOW --level normal *
verify D NOW --level deep *
verify D NOW -v
doctor D NOW *
stats D *
groups D *
groups D --history *
transactions D NOW *
cluster D NOW *
inspect D NOW *
read D *
find D --value a *
compact D --dry-run --estimate --force COMPACT NOW *
retain D --dry-run --explain --config retention.ms=1000 DELETE NOW *
retain D --dry-run NOW *
roll D --dry-run --force DELETE NOW *
recover D --dry-run NOW *
recover D --dry-run --like-broker NOW *
metadump D OUT *
export D --output OUT --mode dropmalformed *
export D --output OUT --format arrow --by-day --isolation read_committed *
sql DUCKDB D 'select * exclude (modified, log_dir) from segments order by all' *
sql DUCKDB D 'select topic, partition, codec, sum(records) from batches group by all order by all' *
sql DUCKDB D --mode dropmalformed 'select * from committed_offsets order by all' *
replay D CLUSTER --create --groups NOW --dry-run ; replay D CLUSTER --create --groups NOW ; \
replay D CLUSTER --groups NOW *
"""
PARTITION_READERS = """
read P --format json
read P --isolation read_committed *
read P --print partition,offset,timestamp,key,value
dump-log P
dump-log P --deep-iteration
dump-log P --print-data-log *
dump-log P --kafka-version 4.2 --print-data-log
dump-index P *
lookup-offset P MIDDLE *
lookup-time P 1700000050000 *
lookup-time P --max-timestamp *
sql DUCKDB D 'select partition, count(*), min("offset"), sum(value_size) from "TOPIC" group by all order by all' *
export P --output OUT --format json --mode dropmalformed ; \
import OUT --log-dir NEW DELETE NOW --dry-run ; import OUT --log-dir NEW DELETE NOW ; verify NEW NOW --level deep *
export P --output OUT ; import OUT --log-dir NEW --partitions 2 --topic t DELETE NOW ; read NEW/t-0 *
"""
CHANGES = """
recover P NOW
recover P --like-broker NOW
recover P --indexes-only NOW
roll P --force DELETE NOW
retain P DELETE --config retention.ms=1000 NOW
retain P DELETE --config retention.bytes=4000 NOW
compact P COMPACT --force NOW
truncate P --to 20 --single-replica DELETE NOW
delete-records P --before 15 --single-replica DELETE NOW
append P LINES --input lines --single-replica DELETE NOW
"""
"""Each is planned, done, checked and undone."""
DIRECTORY_WRITERS = """
recover D NOW --dry-run ; recover D NOW ; verify D NOW ; undo D RUN --dry-run ; undo D RUN *
"""
PARTITION_WRITERS = """
retain P DELETE --config retention.ms=1000 NOW ; purge P --older-than 0s --dry-run ; purge P --older-than 0s *
recover P --salvage OUT NOW *
"""
WITHOUT_A_LOG = """
demo OUT ; verify OUT NOW
import KCAT --input kcat --log-dir NEW --topic k --partitions 2 DELETE NOW --dry-run ; \
import KCAT --input kcat --log-dir NEW --topic k --partitions 2 DELETE NOW ; read NEW/k-0 *
"""
"""Rows of an empty log directory alone."""


class Row(NamedTuple):
    """Command lines that run one after the other in a directory: with the log directory `D`, input files, an empty `NEW`.

    The word RUN stands for the newest run that a command has printed. Where `changes` is false, D is a link.
    Where `case` begins with IN_USE, the copy has modes and links of operators.
    """

    commands: tuple[tuple[str, ...], ...]
    changes: bool = False
    case: str = ""

    @property
    def is_in_use(self):
        return self.changes and self.case.startswith(IN_USE)

    @property
    def name(self):
        return " ; ".join(" ".join(command) for command in self.commands)

    @property
    def needs(self):
        """The name of the module that has to be installed."""
        return EXTRAS.get(self.commands[0][0], "")

    @property
    def has_varying_output(self):
        """Whether it writes other bytes each time, or by the version of a library."""
        command = self.commands[0]
        return command[0] == "metadump" or (command[0] == "export" and "--format json" not in " ".join(command))


def json_option(command):
    """The option that makes the output of a command JSON; --format of export is that of its files."""
    return "--report" if command == "export" else "--format"


def rows_for(case, root, is_changed=True):
    """The rows of the log directory of a case: a part of all, another part for each case."""
    rows = [Row(commands) for commands in commands_of(WITHOUT_A_LOG) if not any(root.iterdir())]
    for row in _all_rows(root, is_changed):
        share = SHARES.get(row.commands[0][0], 2 if is_changed and not row.changes else 4)
        if zlib.crc32(f"{case} {row.name}".encode()) % share == 1:
            rows.append(row._replace(case=case))
    return rows


def _all_rows(root, is_changed):
    partitions = sorted(path for path in root.iterdir() if path.is_dir() and PARTITION.match(path.name))
    data = [path for path in partitions if not path.name.startswith("__") and any(path.glob("*.log"))]
    reading, changing, values = DIRECTORY_READERS, DIRECTORY_WRITERS, {}
    for path in data[:1] or partitions[:1]:
        logs = sorted(path.glob("*.log"))
        middle = int(logs[len(logs) // 2].stem) if logs and logs[0].stem.isdigit() else 0
        values = {"P": f"D/{path.name}", "TOPIC": path.name.rpartition("-")[0], "MIDDLE": str(middle + 7)}
        reading += PARTITION_READERS
        for suffix in SIDECARS:
            reading += "".join(f"dump-log --files P/{file.name}\n" for file in sorted(path.glob(f"*{suffix}"))[:1])
        changing += PARTITION_WRITERS + "".join(
            f"{change} --dry-run ; {change} ; verify P NOW --level deep ; undo P RUN --dry-run ; undo P RUN *\n"
            for change in CHANGES.strip().splitlines()
        )
    yield from (Row(commands) for commands in commands_of(reading, values))
    if is_changed:
        yield from (Row(commands, changes=True) for commands in commands_of(changing, values))


def commands_of(table, values=None):
    """The command lines of each row of a table, with `values` in the place of words."""
    for line in filter(None, table.splitlines()):
        commands = tuple(_command_of(words, values or {}) for words in line.removesuffix("*").split(" ; "))
        yield commands
        if line.endswith("*"):
            yield tuple((*command, json_option(command[0]), "json") for command in commands)


def _command_of(line, values):
    words = []
    for word in shlex.split(line):
        for name, value in values.items():
            word = re.sub(rf"\b{name}\b", lambda _, value=value: value, word)
        words += WORDS.get(word, [word])
    return tuple(words)

"""The one door from the tests to the internals of kafkalog.

Tests outside tests/unit go through the command line (`tests.support.commands.kafkalog`) or the library
(`import kafkalog_cli as kl`). What neither can do, such as a disk that fails under a command, goes through the names here and
nowhere else: tests/unit/test_one_door.py holds that. A redesign of the product then changes this file, and the tests stay.

A name is added only if a promise cannot be tested from outside, under the heading of its purpose. A test needs none of the
names below to run a command, to read a log (`tests.support.naive_reader`) or to make one (`tests.support.logs`).
"""

# ruff: noqa: E402, F401, I001 the names are for other files, in the order of their purposes

import sys

# One command line in this process, with its streams, disk and clock.
from kafkalog_cli import __main__ as entry
from kafkalog_cli.cli import app
from kafkalog_cli.cli.app import run
from kafkalog_cli.cli.commands import COMMANDS, kafkalog_command
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.process import exit_code

IN_A_PROCESS = """
from kafkalog_cli import __main__ as entry
from kafkalog_cli.cli import app
from kafkalog_cli.cli.app import run
from kafkalog_cli.cli.environment import Environment
"""
"""The same for the source of a process of its own, which then has only the modules that a command needs."""

# A disk that fails, stops, or is only in memory: what a file system of the tests implements or extends.
from kafkalog_cli.disk.fs import (
    FileAttributes,
    Filesystem,
    FileStatus,
    ReadableFile,
    RealFilesystem,
    Room,
    WritableFilesystem,
    read_all,
)

# Errors that the library raises, and that a file system of the tests raises as the real one does.
from kafkalog_cli.errors import (
    BadInput,
    ClusterError,
    DamagedLog,
    DamagedTail,
    ExitCode,
    HalfChanged,
    HalfPublished,
    KafkalogError,
    Locked,
    NoSpace,
    NotChanged,
    NothingSelected,
    NotKafkaLayout,
    NotLookedUp,
    NotSame,
    OffsetOutOfRange,
    PathNotFound,
    Refused,
    Unreadable,
    UnsupportedFormat,
    UsageError,
)

# Kafka's own descriptions of messages, to write records of internal topics and requests to a server.
from kafkalog_cli.format.internal_topics.decode import WireReader, encode_message, encode_pieces, read_fields
from kafkalog_cli.format.internal_topics.schema import definitions, message_schema
from kafkalog_cli.format.protocol.messages import API_VERSIONS, apis, apis_for_old_clients

# `serve` in a thread of the test, and the cluster that `replay` sends to.
from kafkalog_cli.ops.choices import DamageAnswer
from kafkalog_cli.ops.move.serve.options import ServeOptions
from kafkalog_cli.ops.move.serve.serving import Serving
from kafkalog_cli.ops.call.options import Context

# The same at its limits.
from kafkalog_cli.ops.move.replay.kafka_cluster import ClusterTopic, KafkaCluster
from kafkalog_cli.ops.move.replay.state import FORMAT, ReplayState
from kafkalog_cli.ops.move.serve.options import ServerLimits

# Locks as another program takes them, and what an import builds before it has its place.
from kafkalog_cli.change.new_partitions import is_staged, staged_name
from kafkalog_cli.disk.lock import LockPolicy, lock_log_dir, lock_partition

# Steps of a change that journals of the tests are made of.
from kafkalog_cli.change.changes import Cut, Drop, Move, Put

# Tables whose every row must have a case, or be in the help.
from kafkalog_cli.cli.commands import EXAMPLES, GROUPS
from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind, Severity
from kafkalog_cli.ops.change.refusals import RULES, Action, RuleOutcome
from kafkalog_cli.ops.steps import text_of

# The partition of a key, which append, import and replay share.
from kafkalog_cli.ops.change.append.partitioning import partition_of_key
from kafkalog_cli.ops.choices import Hashing

# Limits that a test lowers, so that it needs neither gigabytes nor millions of rows.
from kafkalog_cli.broker import producer_state
from kafkalog_cli.ops.cluster import coordinators
from kafkalog_cli.ops.change.append import lines
from kafkalog_cli.ops.check.checks import log_questions
from kafkalog_cli.ops.move.replay import kafka_cluster
from kafkalog_cli.ops.look import stats
from kafkalog_cli.ops.look.read import search
from kafkalog_cli.ops.move.serve import committed, groups
from kafkalog_cli.output import ci_report, inspect_page, junit_report

_LIMITS = {
    "bytes of a line of input": (lines, "MOST_INPUT_LINE_BYTES"),
    "bytes of a coordinator's keys": (coordinators, "MOST_HELD_BYTES"),
    "rows of coordinators that are sorted": (coordinators, "MOST_SORTED_ROWS"),
    "findings of a report in SARIF": (ci_report, "MOST_RESULTS"),
    "findings of a report in JUnit": (junit_report, "MOST_FINDINGS"),
    "bytes of matches that find keeps for the order": (search, "KEPT_BYTES"),
    "segments on a page of inspect": (inspect_page, "_MOST_SEGMENTS"),
    "entries of snapshots compared with a log": (log_questions, "MOST_QUESTIONS"),
    "offsets that serve holds": (committed, "_MOST_OFFSETS"),
    "producers": (producer_state, "MOST_PRODUCERS"),
    "producers that stats counts one by one": (stats, "MOST_PRODUCERS"),
    "seconds a new group waits for members": (groups, "_FIRST_WAIT_SECONDS"),
    "seconds replay waits for an answer": (kafka_cluster, "_SECONDS"),
}


def lower_limit(monkeypatch, name, value):
    """Set a limit of the product to `value` for the time of a test."""
    module, attribute = _LIMITS[name]
    assert value < getattr(module, attribute), f"{name}: no lower limit"
    monkeypatch.setattr(module, attribute, value)


# Points of the product at which a test plants a bug or a delay, to see that it is noticed.
from kafkalog_cli.cli import replay
from kafkalog_cli.disk import directories
from kafkalog_cli.ops.change.append.partitioning import SortedRecords
from kafkalog_cli.ops.cluster.coordinators import CoordinatorTopic
from kafkalog_cli.ops.look.lookup_time import TimeSearch
from kafkalog_cli.ops.call.target import Target

_POINTS = {
    "cluster that replay sends to": (replay, "KafkaCluster"),
    "text and owner of a link": (directories, "_read_link"),
    "records of a partition of an append to several": (SortedRecords, "of"),
    "lock of a change": (Target, "locked"),
    "load of a coordinator's topic": (CoordinatorTopic, "load"),
    "search for the first record of a time": (TimeSearch, "first"),
    "search for the latest record": (TimeSearch, "latest"),
}


def replace_point(monkeypatch, name, make):
    """Put what `make` makes of a function in its place for the time of a test."""
    of, attribute = _POINTS[name]
    monkeypatch.setattr(of, attribute, make(getattr(of, attribute)))


def hide_pyspark(monkeypatch):
    """No module can import PySpark for the time of a test, also where it is installed, and none starts it."""
    for name in [name for name in sys.modules if name.startswith("kafkalog_cli.spark.")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("pyspark", "kafkalog_cli.spark.sessions"):
        monkeypatch.setitem(sys.modules, name, None)

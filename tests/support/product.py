"""The one door from the tests to the internals of kafkalog.

Tests outside tests/unit go through the command line (`tests.support.commands.kafkalog`) or the library
(`import kafkalog_cli as kl`). What neither can do, such as a disk that fails under a command, goes through the names here and
nowhere else: tests/unit/test_one_door.py holds that. A redesign of the product then changes this file, and the tests stay.

A name is added only if a promise cannot be tested from outside, under the heading of its purpose. A test needs none of the
names below to run a command, to read a log (`tests.support.naive_reader`) or to make one (`tests.support.logs`).
"""

# ruff: noqa: F401, I001 the names are for other files, in the order of their purposes

# One command line in this process, with its streams, disk and clock.
from kafkalog_cli.cli import app
from kafkalog_cli.cli.app import run
from kafkalog_cli.cli.commands import COMMANDS, kafkalog_command
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.disk.kernels import KernelChoice

# A disk that fails, stops, or is only in memory: what a file system of the tests implements or extends.
from kafkalog_cli.disk.fs import FileAttributes, Filesystem, FileStatus, ReadableFile, RealFilesystem, Room, read_all
from kafkalog_cli.disk.fs_changes import FilesystemChanges

# Errors that the library raises, and that a file system of the tests raises as the real one does.
from kafkalog_cli.errors import (
    BadInput,
    ClusterError,
    ExitCode,
    KafkalogError,
    Locked,
    NotKafkaLayout,
    NotLookedUp,
    NothingSelected,
    OffsetOutOfRange,
    PathNotFound,
    Refused,
    Unreadable,
    UsageError,
)

# Kafka's own descriptions of messages, to write records of internal topics and requests to a server.
from kafkalog_cli.format.internal_topics.decode import WireReader, encode_message, encode_pieces, read_fields
from kafkalog_cli.format.internal_topics.schema import definitions, message_schema
from kafkalog_cli.format.protocol.messages import API_VERSIONS, apis, apis_for_old_clients

# `serve` in a thread of the test, and the cluster that `replay` sends to.
from kafkalog_cli.ops.replay.cluster import ClusterTopic
from kafkalog_cli.ops.serve.options import DamageAnswer, ServeOptions
from kafkalog_cli.ops.serve.serving import Serving
from kafkalog_cli.ops.session.options import Context

# Steps of a change that journals of the tests are made of.
from kafkalog_cli.change.changes import Cut, Drop, Move, Put

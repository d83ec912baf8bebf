"""The library's calls that change partitions, as writers: what they tell is what they raise, report and warn of."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, fields

import pyarrow as pa

import kafkalog_cli as kl
from tests.crash.log_directories import PARTITION, ROOT
from tests.crash.writers import (
    APPEND,
    APPEND_AND_ROLL,
    COMPACT,
    DELETE_RECORDS,
    INDEXES_ONLY,
    LIKE_BROKER,
    MAKE,
    NEW,
    NEW_ID,
    PURGE,
    RECOVER,
    RETAIN,
    RETAIN_AND_KEEP,
    RETAIN_AT_ONCE,
    ROLL,
    RUN_ID,
    SETTINGS,
    TRUNCATE,
    TRUNCATE_IN_A_BATCH,
    UNDO,
    UP_TO_10_MS,
    Outcome,
    Writer,
)
from tests.support.product import ExitCode, KafkalogError
from tests.support.product_journal import append_by_library, as_in_a_process, library_on


@dataclass(frozen=True)
class LibraryWriter(Writer):
    """A call of the library that does what a command does; `call` gets the file system."""

    call: Callable[[object], object] = field(default=print)

    def act(self, fs: object, *more: str, token: str = "0001") -> Outcome:
        assert not more, "these are options of a command"
        code, errors = ExitCode.OK, ()
        with warnings.catch_warnings(record=True) as warned, library_on(fs, self.now_ms), as_in_a_process(token):
            warnings.simplefilter("always")
            try:
                found = self.call(fs)
                if isinstance(found, kl.Run):
                    code, errors = found.exit_code, found.errors
            except KafkalogError as error:
                code, errors = error.exit_code, (error,)
            except OSError as error:
                code, errors = ExitCode.FAILURE, (error,)
        told = [str(one.message) for one in warned if one.category is kl.LogWarning]
        return Outcome(int(code), "", "\n".join([*map(str, errors), *told]))


def config(*options: str) -> dict[str, str]:
    """The settings of `--config NAME=VALUE`."""
    return dict(word.split("=") for word in options if "=" in word)


def as_library(writer: Writer, call: Callable[[object], object]) -> LibraryWriter:
    """The writer with `call` in place of the command."""
    told = {one.name: getattr(writer, one.name) for one in fields(Writer)}
    return LibraryWriter(**{**told, "name": f"library-{writer.name}"}, call=call)


def _verb(writer: Writer, name: str, *arguments: object, **options: object) -> LibraryWriter:
    path = PARTITION if writer.argv[1] == PARTITION else ROOT
    return as_library(writer, lambda _: getattr(kl, name)(path, *arguments, **options))


def _appends(writer: Writer, **settings: str) -> LibraryWriter:
    def call(fs: object) -> object:
        rows = [line.split(b":") for line in writer.stdin.splitlines()]
        table = pa.table({"key": [key for key, _ in rows], "value": [value for _, value in rows]})
        return append_by_library(fs, PARTITION, table, config=config(*SETTINGS) | settings, batch_bytes=150)

    return as_library(writer, call)


def _make(fs: object) -> object:
    table = pa.table({"value": MAKE.stdin.splitlines()})
    return append_by_library(fs, NEW, table, config=config(*SETTINGS), topic_id=NEW_ID)


_USUAL = {"config": config(*SETTINGS)}
_DELETED = {"topics": ["t"], "config": config(*SETTINGS) | {"cleanup.policy": "delete"}}
_ALL = {**_DELETED, "config": _DELETED["config"] | {"retention.bytes": "0"}}
_OLD = {**_DELETED, "config": _DELETED["config"] | config(*UP_TO_10_MS)}
_CLEANED = config(*SETTINGS) | {"cleanup.policy": "compact", "segment.bytes": "320", "min.cleanable.dirty.ratio": "0"}
LIBRARY = (
    _verb(RECOVER, "recover", **_USUAL),
    _verb(LIKE_BROKER, "recover", mode="like-broker", **_USUAL),
    _verb(INDEXES_ONLY, "recover", mode="indexes-only", **_USUAL),
    _verb(UNDO, "undo", RUN_ID),
    _verb(PURGE, "purge"),
    _verb(ROLL, "roll", force=True, **_USUAL),
    _verb(RETAIN, "retain", **_OLD),
    _verb(RETAIN_AND_KEEP, "retain", keep=True, **_ALL),
    _verb(RETAIN_AT_ONCE, "retain", delay_ms=0, **_OLD),
    _verb(TRUNCATE, "truncate", 6, single_replica=True, **_USUAL),
    _verb(TRUNCATE_IN_A_BATCH, "truncate", 17, single_replica=True, **_USUAL),
    _verb(DELETE_RECORDS, "delete_records", 15, single_replica=True, **_USUAL),
    _verb(COMPACT, "compact", config=_CLEANED),
    _appends(APPEND),
    _appends(APPEND_AND_ROLL, **{"internal.segment.bytes": "500"}),
    as_library(MAKE, _make),
)
"""What the command line has no other way for; each is told to do what its command does."""
LIBRARY_CASES = tuple((writer, name) for writer in LIBRARY for name in writer.fixtures)

"""The views that a query in SQL can name: the topics under the paths, and the tables, which `kafkalog.NAME` names too.

If a topic has a table's name, the bare name is the topic. Both engines, Spark and DuckDB, have these views.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Collection, Iterator, Sequence
from enum import Enum
from typing import NamedTuple, TypeVar

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import UsageError, did_you_mean
from kafkalog_cli.format.values.value_format import ValueFormat
from kafkalog_cli.log.partition import Partition, log_bytes
from kafkalog_cli.ops.choices import Isolation, Mode
from kafkalog_cli.ops.decoding import Decoding
from kafkalog_cli.ops.scans.offsets import sort_partitions
from kafkalog_cli.ops.scans.schema import (
    BATCH_COLUMNS,
    FAULT,
    HEADERS,
    KAFKA_COLUMNS,
    SIZE_COLUMNS,
    STRUCT_COLUMNS,
    TEXT_COLUMNS,
    SourceColumn,
)
from kafkalog_cli.ops.scans.structs.columns import StructTypes
from kafkalog_cli.ops.scans.tables import TABLES, Table
from kafkalog_cli.ops.selection import Selection, select_served

TABLE_DATABASE = "kafkalog"
"""The database of the tables, whatever the topics are called."""

_SHOWN = 20

ChoiceT = TypeVar("ChoiceT", bound=Enum)


class Reading(NamedTuple):
    """How topics are read; the options of the source."""

    isolation: Isolation = Isolation.READ_UNCOMMITTED
    mode: Mode = Mode.FAILFAST
    include_control: bool = False
    decoding: Decoding = Decoding(ValueFormat.AUTO, ValueFormat.AUTO)

    @classmethod
    def of_words(  # noqa: PLR0913, PLR0917
        cls, isolation: str, mode: str, include_control: bool, key_format: str, value_format: str,
        schemas: str | os.PathLike[str] | None,
    ) -> Reading:  # fmt: skip
        """Return it from the words that programs give. Raises UsageError for a word that is none of the choices."""
        decoding = Decoding.of_words(key_format, value_format, None if schemas is None else os.fspath(schemas))
        return cls(member_of(Isolation, isolation), member_of(Mode, mode), include_control, decoding.absolute())


def member_of(kind: type[ChoiceT], value: str) -> ChoiceT:
    """Return the member of an Enum with a value. Raises UsageError if there is none."""
    try:
        return kind(value)
    except ValueError:
        names = ", ".join(str(choice.value) for choice in kind)
        raise UsageError(reason=f"{value}: choose one of {names}") from None


class Dialect(NamedTuple):
    """What messages say of an engine: how it quotes a name, and how it tells names apart that differ in their case."""

    quote: str
    of_case: str


SPARK = Dialect("`", "--conf spark.sql.caseSensitive=true tells them apart")
DUCKDB = Dialect('"', "DuckDB does not tell them apart; give the partition directories of only one of them")


class ResultColumn(NamedTuple):
    """A column of a result: its name, its type in the engine's words, and whether it holds numbers."""

    name: str
    type: str
    is_number: bool


class View(NamedTuple):
    """A view of a topic (`table` is None) or of a table; `partitions` are the partitions that it is read from."""

    name: str
    table: Table | None
    partitions: tuple[Partition, ...]
    columns: tuple[SourceColumn, ...]

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of the view's partitions."""
        return frozenset(partition.number for partition in self.partitions)

    def options(
        self, reading: Reading, columns: Sequence[str], numbers: Collection[int] | None = None
    ) -> dict[str, str]:
        """Return the options of the source for a read of some columns of some partitions; None: of all.

        Raises UsageError if a partition is found twice.
        """
        sort_partitions(self.partitions)
        paths = [partition.path for partition in self.partitions if numbers is None or partition.number in numbers]
        options = {"paths": json.dumps(paths), "mode": reading.mode.value}
        if self.table is not None:
            return {**options, "table": self.table.name}
        return options | {
            "isolation": reading.isolation.value, "includeControl": str(reading.include_control).lower(),
            "columns": ",".join(columns), **reading.decoding.options(),
        }  # fmt: skip


class Catalog:
    """The views of one query under some paths. Raises as `select_served`.

    Views of topics have decoded contents if the query contains the names of these columns. So `select *` without them
    has each value once.
    """

    def __init__(
        self, fs: Filesystem, paths: Sequence[str], query: str, reading: Reading, dialect: Dialect = SPARK
    ) -> None:
        self.reading = reading
        self.query = query
        self.case_sensitive = False
        """Whether names of other case are other names."""
        self._dialect = dialect
        self._fs = fs
        self._text = query.casefold()
        self._partitions = [
            partition for partition in select_served(fs, list(paths), Selection()) if _is_text(partition.path)
        ]
        self._topics: dict[str, list[Partition]] = {}
        self._with_structs: set[str] = set()
        self._without_structs: dict[str, UsageError] = {}
        for partition in self._partitions:
            if partition.segments or partition.directory.is_metadata_log:
                self._topics.setdefault(partition.topic, []).append(partition)

    @property
    def size_bytes(self) -> int:
        """The bytes of the logs under the paths."""
        return sum(map(log_bytes, self._partitions))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all topics, then of all tables."""
        return (*sorted(self._topics), *TABLES)

    def _fold(self, name: str) -> str:
        return name if self.case_sensitive else name.casefold()

    def find(self, name: str) -> View | None:
        """Return the view with this name; None if there is none. Raises UsageError if two topics have the name."""
        topics = [topic for topic in self._topics if self._fold(topic) == self._fold(name)]
        if len(topics) > 1:
            raise UsageError(
                reason=f"{name} may be either of the topics {', '.join(sorted(topics))}: {self._dialect.of_case}"
            )
        if not topics:
            return self.find_table(name)
        partitions = tuple(self._topics[topics[0]])
        return View(topics[0], None, partitions, tuple(self._columns(partitions)))

    def named(self, parts: Sequence[str]) -> View | None:
        """Return the view that a query names by these parts; None if it is none of `find` and of kafkalog.TABLE.

        Raises UsageError for a name of the database `kafkalog` that is none of its tables.
        """
        if len(parts) == 1:
            return self.find(parts[0])
        if len(parts) > 2 or parts[0].casefold() != TABLE_DATABASE:
            return None
        view = self.find_table(parts[1])
        if view is None:  # Spark may take such a name for a file of the format `kafkalog`
            raise UsageError(reason=self.about(".".join(parts), parts))
        return view

    def find_table(self, name: str) -> View | None:
        """Return the table with this name; None if there is none, or if there is no partition to read it from."""
        table = next((one for one in TABLES.values() if self._fold(one.name) == self._fold(name)), None)
        if table is None:
            return None
        partitions = [one for one in self._partitions if table.topic in (None, one.topic)]
        return View(table.name, table, tuple(partitions), table.columns) if partitions or table.topic is None else None

    def _columns(self, partitions: tuple[Partition, ...]) -> Iterator[SourceColumn]:
        """Yield the columns of a topic's view."""
        yield from (*KAFKA_COLUMNS, HEADERS, *BATCH_COLUMNS, *SIZE_COLUMNS)
        yield from (one for one in TEXT_COLUMNS if one.name in self._text)
        structs = [one for one in STRUCT_COLUMNS if one.name in self._text]
        types = StructTypes(self._fs, self.reading.decoding, partitions) if structs else None
        for one in structs:
            assert types is not None
            try:
                yield types.typed(one)
                self._with_structs.add(one.name)
            except UsageError as error:
                self._without_structs[one.name] = error
        if self.reading.mode is Mode.PERMISSIVE:
            yield FAULT

    def check_structs(self) -> None:
        """Raise UsageError if the query names a column of structs that none of the topics found so far has."""
        for name, error in self._without_structs.items():
            if name not in self._with_structs:
                raise error

    def about(self, name: str, parts: Sequence[str]) -> str:
        """Return the message for a name that is not a view."""
        table = TABLES.get(self._fold(parts[-1]))
        if table is not None and table.topic is not None:
            return f"{name} is read from {table.topic}, which is not under these paths"
        whole = ".".join(parts)
        if len(parts) > 1 and whole in self._topics:
            return f"there is no view {name}; the topic is to be written {self._quoted(whole)}"
        if len(parts) == 1 and self.find(whole) is not None:
            return f"{name} has no versions, and no expression may make its name: a query names it as it is"
        question = did_you_mean(whole, self.names)
        return f"there is no view {name}. {question or f'Views here: {self._nearest(whole)}'}"

    def listed(self) -> str:
        """Return the message for a statement that asks for the names of views or of their columns."""
        return f"the views here are {self._nearest('')}; `select * from NAME limit 0` shows the columns of one"

    def _quoted(self, name: str) -> str:
        return f"{self._dialect.quote}{name}{self._dialect.quote}"

    def _nearest(self, like: str) -> str:
        shown = difflib.get_close_matches(like, self.names, n=3) or self.names[:_SHOWN]
        more = len(self.names) - len(shown)
        return ", ".join(shown) + (f", and {more} more" if more else "")


def _is_text(path: str) -> bool:
    try:
        path.rpartition("/")[2].encode()
    except UnicodeEncodeError:
        return False
    return True

"""`kafkalog sql`: SQL queries over log directories, on Spark."""

from enum import Enum
from typing import Annotated

import typer

from kafkalog_cli.cli.environment import environment_of
from kafkalog_cli.cli.options import (
    OUTPUT_PANEL,
    SELECTION_PANEL,
    Format,
    IsolationLevel,
    IsolationOption,
    OutputFormat,
)
from kafkalog_cli.cli.spark_options import DEFAULT_MASTER, Conf, Master, spark_settings


class ModeOption(Enum):
    """How unreadable records are handled."""

    FAILFAST = "failfast"
    DROPMALFORMED = "dropmalformed"
    PERMISSIVE = "permissive"


class AllowOption(Enum):
    """A permission of a query, besides reading views."""

    FILES = "files"
    JAVA = "java"


command = typer.Typer(add_completion=False)


@command.command("sql")
def sql(  # noqa: PLR0913, PLR0917 options
    context: typer.Context,
    paths: Annotated[list[str], typer.Argument(metavar="LOG_DIR...",
        help="Log directories, partition directories, or globs of them.", show_default=False)],
    query: Annotated[str, typer.Argument(metavar="QUERY",
        help="A query in Spark's SQL. Names that are no identifiers go between backticks.", show_default=False)],
    isolation: IsolationOption = IsolationLevel.READ_UNCOMMITTED,
    include_control: Annotated[bool, typer.Option("--include-control", rich_help_panel=SELECTION_PANEL,
        help="Control records too: the column control tells them.")] = False,
    mode: Annotated[ModeOption, typer.Option(rich_help_panel=SELECTION_PANEL,
        help="At damage: failfast ends with exit code 4, dropmalformed leaves out what cannot be read, permissive"
        " has a row for each place, with what was wrong in _fault.")] = ModeOption.FAILFAST,
    allow: Annotated[list[AllowOption] | None, typer.Option(rich_help_panel=SELECTION_PANEL,
        help="What the query may do besides: files lets it read any file by its path, as text.`/etc/hostname`; java"
        " lets it call any method of Java and functions that nobody has checked. Repeatable.",
        show_default=False)] = None,
    output_format: Format = OutputFormat.TEXT,
    output: Annotated[str | None, typer.Option(metavar="FILE", rich_help_panel=OUTPUT_PANEL,
        help="Write a Parquet file instead, which must not be there yet.")] = None,
    max_rows: Annotated[int | None, typer.Option(metavar="N", min=1, rich_help_panel=OUTPUT_PANEL,
        help="Most rows that are printed or written; a table has 1000 otherwise.")] = None,
    master: Master = DEFAULT_MASTER,
    conf: Conf = None,
) -> int:  # fmt: skip
    """Answer a query in SQL over the topics of log directories, on Spark.

    Each topic is a view, and so are committed_offsets, offset_commits, groups, group_members, transactions, topics,
    partitions, configs, brokers, features, batches and segments.

    Only what the query names is read, and of it only the columns that it uses: count(*) decompresses nothing. Where a
    topic has the name of such a view, that is kafkalog.NAME. Nothing is locked and nothing changed: a query reads no
    other file and calls no code, unless --allow lets it.
    """
    from kafkalog_cli.cli.sql_run import SqlOptions, SqlRun

    options = SqlOptions(
        query, isolation.value, include_control, mode.value, output_format.is_json, output, max_rows,
        master, spark_settings(conf), [one.value for one in allow or ()],
    )  # fmt: skip
    return SqlRun(environment_of(context), options).run(paths)

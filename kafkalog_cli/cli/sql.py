"""`kafkalog sql`: SQL queries over log directories, on Spark."""

from typing import Annotated, Any, NamedTuple

from typer import Argument, Context

from kafkalog_cli.cli.commands import Command
from kafkalog_cli.cli.exit_codes import READ, exit_codes
from kafkalog_cli.cli.groups import Contents
from kafkalog_cli.cli.options import Format, IsolationOption, OutputFormat, output_option, selection_option
from kafkalog_cli.cli.session_groups import DEFAULT_MASTER, Conf, Master
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.ops.choices import Allowed, Isolation, Mode

EXAMPLES = (
    (
        "Count the records of each key",
        "kafkalog sql /var/lib/kafka 'select key, count(*) from orders group by 1'",
    ),
    (
        "Print the committed offsets of all groups",
        "kafkalog sql /var/lib/kafka 'select * from committed_offsets'",
    ),
    (
        "Write a result as Parquet",
        "kafkalog sql /var/lib/kafka 'select * from orders' --output orders.parquet",
    ),
)
EXIT_CODES = READ | exit_codes(ExitCode.REFUSED)


# fmt: off
class SqlOptions(NamedTuple):
    """The options of sql."""

    paths: Annotated[list[str], Argument(metavar="LOG_DIR...",
        help="Log directories, partition directories, or globs of them.", show_default=False)]
    query: Annotated[str, Argument(metavar="QUERY",
        help="A query in Spark SQL. Backticks enclose names with other characters than letters, digits and _.",
        show_default=False)]
    isolation: IsolationOption = Isolation.READ_UNCOMMITTED
    include_control: Annotated[bool, selection_option("--include-control",
        help="Include control records, which have a value in the column control.")] = False
    mode: Annotated[Mode, selection_option(
        help="At damage: failfast ends with exit code 4, dropmalformed leaves out unreadable records, permissive has a"
        " row per damaged place, with the fault in _fault.")] = Mode.FAILFAST
    allow: Annotated[list[Allowed] | None, selection_option(
        help="Permit more to the query; may be repeated. files: read any file by its path, as text.`/etc/hostname`."
        " java: call any method of Java, and functions that were not checked.", show_default=False)] = None
    contents: Contents = Contents()
    output_format: Format = OutputFormat.TEXT
    output: Annotated[str | None, output_option(metavar="FILE",
        help="Write a new Parquet file instead of printing.")] = None
    max_rows: Annotated[int | None, output_option(metavar="N", min=1, envvar="KAFKALOG_MAX_ROWS",
        help="Most rows to print or write. Without it: 1000 rows in a table, else all.")] = None
    master: Master = DEFAULT_MASTER
    conf: Conf = None
# fmt: on


def sql(context: Context, options: SqlOptions) -> int:
    """Query topics, groups and cluster metadata in SQL.

    Each topic is a view. So are committed_offsets, offset_commits, groups, group_members, transactions, topics,
    partitions, configs, brokers, features, batches and segments. A topic with such a name is kafkalog.NAME.

    A query may name fields of Avro or Protobuf: value_struct.id. The columns value_struct and key_struct have the type
    of the topic's newest schema. The columns value_json and key_json are JSON text, of all formats: get_json_object(
    value_json, '$.id'). Without --value-format, contents with a Schema Registry's framing are decoded.

    Only the topics and columns that the query uses are read: count(*) decompresses nothing. Nothing is locked or
    changed. A query reads no other file and calls no code, unless --allow permits it. Needs the extra `spark`.
    """
    from kafkalog_cli.cli.sql_run import SqlRun

    return SqlRun(context.obj, options).run()


class Parser(Command):
    """Takes a query that begins with a comment. A space before it keeps it from being read as an option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: D102
        return super().parse_args(ctx, [f" {word}" if word.startswith("-- ") else word for word in args])

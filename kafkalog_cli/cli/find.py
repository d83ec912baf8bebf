"""`kafkalog find`: print the records that meet some conditions."""

from functools import partial
from typing import Annotated, NamedTuple

from typer import Argument, Context, Option

from kafkalog_cli.cli.exit_codes import READ
from kafkalog_cli.cli.groups import Contents, OutputLimits, RangeOptions, ReadTopics
from kafkalog_cli.cli.options import Format, IsolationOption, Jobs, Now, OutputFormat, output_option
from kafkalog_cli.cli.single_files import with_single_files
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.ops.choices import Isolation

EXAMPLES = (
    ("Find a customer's records in all topics", "kafkalog find /var/lib/kafka --key customer-7"),
    (
        "Find an order in JSON values of the last two hours, with three records before and after it",
        "kafkalog find /var/lib/kafka --topic orders --json order.id=42 --from-time -2h -C 3",
    ),
    (
        "Print the last error of each partition as NDJSON",
        "kafkalog find /var/lib/kafka --regex 'error|failed' -i --last 1 --format json",
    ),
)
EXIT_CODES = READ | {ExitCode.OK: "some record matches", ExitCode.FAILURE: "no record matches, or an error"}

_condition = partial(Option, rich_help_panel="Conditions")


# fmt: off
class FindOptions(NamedTuple):
    """The options of find."""

    paths: Annotated[list[str], Argument(metavar="PATH...", show_default=False,
        help="Log directories, partition directories, segment files under any name (.gz and .zst too), or globs"
        " of them.")]
    key: Annotated[str | None, _condition("--key", metavar="KEY",
        help="The key is KEY: as --key-format prints it, or bytes as hex:00FF or base64:AP8=.")] = None
    value: Annotated[str | None, _condition("--value", metavar="TEXT", help="The value contains TEXT.")] = None
    regex: Annotated[str | None, _condition("--regex", "-e", metavar="REGEX",
        help="The key or the value contains a match of Python's regular expression REGEX, on bytes.")] = None
    header: Annotated[list[str] | None, _condition("--header", metavar="NAME[=VALUE]",
        help="The record has a header NAME, with this value (bytes: hex:00FF or base64:AP8=); may be repeated.")] = None
    json_path: Annotated[list[str] | None, _condition("--json", metavar="PATH[=VALUE]",
        help="The value is JSON, and has something at PATH, such as order.items[0].id; [*] is each element. With VALUE,"
        " it is this text or JSON value. With --key-format, key.PATH leads into the key. May be repeated.")] = None
    ignore_case: Annotated[bool, _condition("--ignore-case", "-i",
        help="Ignore the case of ASCII letters in --value and --regex.")] = False
    topics: ReadTopics = ReadTopics()
    range: RangeOptions = RangeOptions()
    isolation: IsolationOption = Isolation.READ_UNCOMMITTED
    now: Now = None
    first: Annotated[int | None, output_option("--first", metavar="N", min=1,
        help="Stop after the first N matches of each partition.")] = None
    last: Annotated[int | None, output_option("--last", metavar="N", min=1,
        help="Print only the last N matches of each partition. The search begins at its end.")] = None
    only_counts: Annotated[bool, output_option("--count", "-c",
        help="Print only the number of matches, for each partition with a match.")] = False
    before: Annotated[int | None, output_option("--before-context", "-B", metavar="N", min=0,
        help="Print also N records before each match.")] = None
    after: Annotated[int | None, output_option("--after-context", "-A", metavar="N", min=0,
        help="Print also N records after each match.")] = None
    around: Annotated[int, output_option("--context", "-C", metavar="N", min=0,
        help="Print also N records before and after each match.")] = 0
    contents: Contents = Contents()
    print_: Annotated[str | None, output_option("--print", metavar="FIELD,...",
        help="Fields of a line of text: timestamp, partition, offset, epoch, headers, key, value. Default:"
        " key,value.")] = None
    kcat_format: Annotated[str | None, output_option("-f", metavar="FORMAT",
        help=r"Print each record in kcat's format, as `read -f` does, such as '%t %p %o: %k %s\n'.")] = None
    output_format: Format = OutputFormat.TEXT
    jobs: Jobs = 0
    limits: OutputLimits = OutputLimits()
# fmt: on


def find(context: Context, options: FindOptions) -> int:
    """Print the records that meet all conditions.

    Each line begins with topic-partition:offset. Records come in the order of the partitions and of their offsets.
    The exit code is 1 if no record matches. Batches that cannot match are not decoded, so damage in them is not
    reported. `verify --level deep` finds it.

    With --value-format, --json looks into decoded values, such as Avro. --value and --regex always search the
    stored bytes. Values that cannot be decoded do not match --json. The reason is a warning, and the exit code is 3.

    Without a condition every record matches: --count counts them, and --last 10 prints the last ten of each
    partition. A partition without the offsets or times of the range has no match. JSON values of more than 64 MiB, or
    of more than 2 million elements, are not searched for --json: that is a warning, too, and the exit code is 3.
    """
    from kafkalog_cli.cli.find_run import FindRun

    environment, paths = with_single_files(context.obj, options.paths)
    return FindRun(environment, options._replace(paths=paths)).run()

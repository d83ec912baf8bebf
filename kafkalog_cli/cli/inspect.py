"""`kafkalog inspect`: partitions and segments on a time axis."""

from typing import TYPE_CHECKING, Annotated

from typer import Argument, Context

from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.exit_codes import READ, exit_codes
from kafkalog_cli.cli.option_groups import Topics
from kafkalog_cli.cli.options import Format, Now, OutputFormat, output_option
from kafkalog_cli.cli.session_groups import Printing, Safety, SettingSources, session_options
from kafkalog_cli.errors import ExitCode

if TYPE_CHECKING:
    from kafkalog_cli.ops.inspect import InspectedPartition

EXAMPLES = (
    (
        "See when the data of each partition was written, and what retention removes",
        "kafkalog inspect /var/lib/kafka",
    ),
    (
        "Make a page of it for a browser",
        "kafkalog inspect /var/lib/kafka --broker-config server.properties --html inspect.html",
    ),
    ("See each segment of a partition", "kafkalog inspect /var/lib/kafka/orders-0"),
)
EXIT_CODES = READ | exit_codes(ExitCode.REFUSED)


def inspect(  # noqa: PLR0913
    context: Context,
    *,
    paths: Annotated[list[str], Argument(metavar="PATH...", show_default=False,
        help="Log directories, partition directories, or globs of them.")],
    topics: Topics,
    settings: SettingSources,
    now: Now = None,
    html: Annotated[str | None, output_option("--html", metavar="FILE", show_default=False,
        help="Write also a page for browsers to FILE, replacing it. The page needs no other file and no"
        " network.")] = None,
    output: Format = OutputFormat.TEXT,
) -> int:  # fmt: skip
    """Show partitions on a time axis: segments, holes, retention.

    A row per partition shows when its data was written, on an axis that all rows share. HOLES are ranges of offsets in
    no batch, which compaction leaves too. OPEN are transactions without a marker. DIRTY is the part of a compacted log
    that the cleaner has not cleaned. REMOVABLE is what retention removes now. A single partition has a row per segment
    too. The settings for DIRTY and REMOVABLE have the same sources as those of retain and compact.

    Batch headers are read, but no records, and no CRC is checked. Nothing is locked or changed.
    """
    from kafkalog_cli.cli.verbs import VerbRun
    from kafkalog_cli.disk.named_places import check_named_file, replace_named_file
    from kafkalog_cli.ops.inspect import INSPECT, inspect_partition
    from kafkalog_cli.output.inspect_view import inspect_view, write_inspected

    environment: Environment = context.obj
    inspected: list[InspectedPartition] = []
    options = session_options(environment, topics, Safety(now=now, dry_run=True), settings=settings)
    run = VerbRun(context, INSPECT, inspect_view(), options, Printing(output=output))
    if html is not None:
        check_named_file(environment.fs, html)
    partitions = run.session.partitions(paths)

    def show(found: "InspectedPartition") -> None:
        inspected.append(found)
        run.show(found)

    summary = run.run(inspect_partition, partitions, show)
    if html is not None:
        from kafkalog_cli.output.inspect_page import inspect_page

        page = inspect_page(inspected, run.session.clock.now_ms)
        replace_named_file(environment.fs, html, page, "page")
    if not output.is_json:
        write_inspected(run.out, inspected)
    return run.finish(summary, partitions)

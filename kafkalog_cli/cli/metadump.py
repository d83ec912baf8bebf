"""`kafkalog metadump`: copy log directories without the data in them."""

from typing import Annotated

from typer import Argument, Context, Option

from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.exit_codes import PATHS, exit_codes
from kafkalog_cli.cli.options import Format, OutputFormat
from kafkalog_cli.errors import ExitCode, UsageError
from kafkalog_cli.output.stream import paint_of

EXAMPLES = (
    ("Make a copy without keys, values and secrets", "kafkalog metadump /var/lib/kafka /mnt/for-support"),
    (
        "Replace the names of topics and groups too",
        "kafkalog metadump /var/lib/kafka /mnt/for-support --hash-names",
    ),
)
EXIT_CODES = PATHS | exit_codes(ExitCode.UNSUPPORTED, ExitCode.REFUSED)


def metadump(
    context: Context,
    paths: Annotated[list[str] | None, Argument(metavar="LOG_DIR... OUT",
        help="Log directories, and the directory to make. Several log directories become directories in it.",
        show_default=False)] = None,
    hash_names: Annotated[bool, Option("--hash-names",
        help="Replace names of topics, groups and transactional ids, too.")] = False,
    output: Format = OutputFormat.TEXT,
) -> int:  # fmt: skip
    """Copy log directories without keys, values and secrets.

    Keys, values and headers are replaced by other bytes of the same size. Equal keys stay equal. Headers of
    batches, offsets, timestamps, snapshots and checkpoints stay. Damage is copied too: verify reports the same
    findings for the copy. A broker starts on the copy. Snappy and lz4 batches change their size, and offset indexes
    follow.

    Internal topics keep their structure, but no users, hosts, client ids, secrets, principals or metadata of
    commits. Settings of topics and numbers stay; other settings may be passwords and are replaced. Names of topics,
    groups and transactional ids stay unless --hash-names is given. Stop the broker first. The source is only read.
    """
    from kafkalog_cli.cli.command_output import CommandOutput
    from kafkalog_cli.ops.metadump.copying import metadump as copy_without_data
    from kafkalog_cli.ops.session.observer import LockWarnings
    from kafkalog_cli.output.metadump_view import METADUMP, metadump_text
    from kafkalog_cli.output.progress import Progress

    environment: Environment = context.obj
    if paths is None or len(paths) < 2:
        raise UsageError(reason="metadump needs a LOG_DIR and OUT; see kafkalog metadump --help")
    shown = CommandOutput(environment, as_json=output.is_json)
    began = environment.clock()
    LockWarnings(environment.fs, shown.messages.report).about(*(path.rstrip("/") or "/" for path in paths[:-1]))
    with Progress(environment.stderr, "metadump", as_json=output.is_json, clock=environment.clock) as progress:
        made = copy_without_data(
            environment.fs, paths[:-1], paths[-1], hash_names=hash_names, begin=progress.expect, report=progress.advance
        )
    seconds = environment.clock() - began
    shown.show(METADUMP, made, lambda made: metadump_text(made, seconds, paint_of(shown.out)))
    return shown.end(ExitCode.OK, partitions=made.partitions, records=made.counts.records, files=made.counts.files)

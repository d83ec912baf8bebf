"""`kafkalog compact`: keep only the last record of each key, as a broker's log cleaner does."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from typer import Context, Option

from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.exit_codes import CHANGE_DAMAGED
from kafkalog_cli.cli.option_groups import Topics
from kafkalog_cli.cli.options import Delay, Input, KeyFormatOption, Metrics, PartitionPaths, SchemasOption, delay_ms_of
from kafkalog_cli.cli.session_groups import Pacing, Printing, Safety, WriterSettings, session_options
from kafkalog_cli.errors import ExitCode, UsageError
from kafkalog_cli.format.internal_topics.schema import NEWEST, kafka_version_of
from kafkalog_cli.ops.option_values import parse_size_bytes

if TYPE_CHECKING:
    from kafkalog_cli.ops.compact.plan import CompactPlan
    from kafkalog_cli.ops.session.work import Changed

EXAMPLES = (
    ("Estimate the effect of compaction", "kafkalog compact /var/lib/kafka --dry-run --estimate"),
    ("Compact one topic now", "kafkalog compact /var/lib/kafka --topic customers --force"),
    (
        "Erase all records of some keys, with a proof",
        "kafkalog compact /var/lib/kafka --topic customers --erase-keys keys.txt --input lines",
    ),
)
EXIT_CODES = CHANGE_DAMAGED


def compact(  # noqa: PLR0913
    context: Context,
    *,
    paths: PartitionPaths = None,
    topics: Topics,
    force: Annotated[bool, Option("--force",
        help="Clean all records again, even if the log is not dirty enough.")] = False,
    estimate: Annotated[bool, Option("--estimate",
        help="With --dry-run: read the logs, and count the records that would be removed.")] = False,
    explain: Annotated[str | None, Option(metavar="KEY",
        help="With --dry-run: explain for each record of KEY why and when it stays or is removed.")] = None,
    erase_keys: Annotated[str | None, Option(metavar="FILE",
        help="Erase all records of the keys in FILE without undo, prove it, and report other places with"
        " them.")] = None,
    key_format: KeyFormatOption = None,
    schemas: SchemasOption = None,
    remove_other_records: Annotated[bool, Option("--remove-other-records",
        help="With --erase-keys: also remove the records of other keys that --config cleanup.policy=compact removes"
        " from a topic that is not known to be compacted.")] = False,
    input: Annotated[Input, Option("--input",  # noqa: A002
        help="Format of FILE: NDJSON records from dump-log, or one key per line.")] = Input.NDJSON,
    memory: Annotated[str, Option(metavar="SIZE", envvar="KAFKALOG_MEMORY",
        help="Memory for the keys of one partition. If they need more, the log is read several times.")] = "128MiB",
    kafka_version: Annotated[str, Option(metavar="VERSION", envvar="KAFKALOG_KAFKA_VERSION",
        help="Clean as the log cleaner of Kafka 4.2, 4.3 or 4.4 does. 4.4 keeps fewer empty batches.")] = NEWEST.value,
    delay: Delay = None,
    settings: WriterSettings,
    safety: Safety,
    pacing: Pacing,
    metrics: Metrics = None,
    printing: Printing,
) -> int:  # fmt: skip
    """Keep only the last record of each key, as a log cleaner does.

    Tombstones and aborted records are removed when Kafka's rules permit it. Only topics with compact in their
    cleanup.policy are cleaned: by --config, the metadata log, or --broker-config. A log is cleaned if it is dirty
    enough (min.cleanable.dirty.ratio), the dirtiest log first.

    Replaced files are renamed to .deleted. A later run unlinks them after file.delete.delay.ms. With --erase-keys they
    are unlinked at once.
    """
    from kafkalog_cli.cli.verbs import VerbRun
    from kafkalog_cli.ops.compact.plan import CompactRequest
    from kafkalog_cli.ops.compact.verb import (
        COMPACT,
        CompactWork,
        compact_partition,
        dirtiest_first,
        keys_to_erase,
        keys_to_explain,
    )
    from kafkalog_cli.ops.decoding import Decoding
    from kafkalog_cli.output.compact_text import DRY_RUN_COLUMNS
    from kafkalog_cli.output.compact_view import compact_view, note_of_missing
    from kafkalog_cli.output.human import write_table

    if estimate and not safety.dry_run:
        raise UsageError(reason="--estimate needs --dry-run")
    if explain is not None and not safety.dry_run:
        raise UsageError(reason="--explain needs --dry-run")
    if remove_other_records and erase_keys is None:
        raise UsageError(reason="--remove-other-records needs --erase-keys")
    if erase_keys is not None and (delay is not None or explain is not None):
        raise UsageError(reason="--erase-keys cannot be combined with --delay, as no removal waits, or with --explain")
    decoding = Decoding(key_format, None, schemas)
    decoding.check()
    environment: Environment = context.obj
    options = session_options(environment, topics, safety, settings=settings, pacing=pacing)
    own: dict[str, Any] = {
        "is_forced": force,
        "memory_bytes": parse_size_bytes(memory),
        "delay_ms": delay_ms_of(delay, keeps=False) if erase_keys is None else 0,
        "version": kafka_version_of(kafka_version),
    }
    explains, erases = explain is not None, erase_keys is not None
    run = VerbRun(context, COMPACT, compact_view(explains=explains, erases=erases), options, printing, metrics)
    partitions = run.session.writable_partitions(paths or [])
    rows: list[CompactPlan] = []
    if safety.dry_run and not explains and not erases and len(partitions) > 1:
        run.view = compact_view(rows=rows)
    keys = None if erase_keys is None else keys_to_erase(
        environment.fs, erase_keys, partitions, decoding, is_ndjson=input.is_json
    )  # fmt: skip
    erased = None if keys is None else keys.sought
    request = CompactRequest(run.session.clock, erased=erased, **own)
    ordered = dirtiest_first(run.session, partitions, request)
    explained = None if explain is None else keys_to_explain(environment.fs, explain, partitions, decoding)
    what = CompactWork(request, keys, estimate, explained, removes_others=remove_other_records)
    missing: list[set[int]] = []  # the lines with keys that no log so far has a record of

    def show(changed: "Changed[CompactPlan]") -> None:
        run.show(changed)
        erasure = changed.plan.erasure
        if erasure is not None and not changed.plan.is_refused:
            missing[:] = [set(erasure.lines_without_record).intersection(*missing)]

    summary = run.run(partial(compact_partition, what=what), ordered, show)
    if keys is not None and any(missing):
        run.report(note_of_missing(keys, missing[0], erase_keys or ""))
        summary = summary._replace(code=summary.code or ExitCode.WARNINGS)
    if rows:
        write_table(run.out, DRY_RUN_COLUMNS, rows)
    return run.finish(summary, ordered)

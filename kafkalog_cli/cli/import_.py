"""`kafkalog import`: make new partitions of a log directory from the records of files."""

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from shlex import join
from typing import Annotated, Literal, NamedTuple

from typer import Argument, Context, Option

from kafkalog_cli.cli.engine import engine_of
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.exit_codes import CHANGE_DAMAGED
from kafkalog_cli.cli.options import (
    CodecName,
    Conf,
    PartitionerOption,
    Printing,
    Safety,
    SingleReplica,
    Spark,
    WriterSettings,
    safety_option,
    spark_option,
)
from kafkalog_cli.cli.run import Run
from kafkalog_cli.disk.lock import LockPolicy
from kafkalog_cli.errors import Refused, UsageError, counted
from kafkalog_cli.log.reading.record_arrow import need_pyarrow
from kafkalog_cli.log.settings.source import SettingsSource
from kafkalog_cli.log.settings.topic_config import parse_topic_settings, read_broker_properties
from kafkalog_cli.ops.choices import Hashing
from kafkalog_cli.ops.map_each import MapEach
from kafkalog_cli.ops.move.importing.job import Import
from kafkalog_cli.ops.move.importing.planning import ImportPlan, ImportResult
from kafkalog_cli.ops.move.importing.sources import ImportRequest, command_of, input_files, topic_ids
from kafkalog_cli.output.progress import sized, spent
from kafkalog_cli.output.stream import printable

EXAMPLES = {
    "Build the partitions that an export wrote": "kafkalog import lake --log-dir /var/lib/kafka",
    "Build six partitions of a topic from Parquet files, and compare each record": (
        "kafkalog import orders.parquet --log-dir /var/lib/kafka --topic orders --partitions 6 --prove"
    ),
}
EXIT_CODES = CHANGE_DAMAGED

_partitions_option = partial(Option, rich_help_panel="Partitions and batches")


# fmt: off
class ImportOptions(NamedTuple):
    """The options of import."""

    inputs: Annotated[list[str], Argument(metavar="INPUT...", show_default=False,
        help="Files from export, other Parquet or Arrow files with a column key or value, NDJSON from read, lines of"
        " kcat -J; or directories of such files.")]
    log_dir: Annotated[str, _partitions_option("--log-dir", metavar="DIR", show_default=False,
        help="Log directory for the new partitions.")]
    topic: Annotated[str | None, _partitions_option(metavar="NAME",
        help="Topic of the records. Without it: by the column topic, the directory topic=NAME, or the metadata in files"
        " of export.")] = None
    topic_id: Annotated[list[str] | None, _partitions_option("--topic-id", metavar="[TOPIC=]ID",
        help="Id of a topic; may be repeated. Without it: by the metadata log there, or the metadata in files of"
        " export.")] = None
    partitions: Annotated[int | None, _partitions_option("--partitions", metavar="N", min=1,
        help="Make N partitions per topic, with records by their keys (--partitioner) and new offsets. Without it: by"
        " the column partition, or the metadata in files of export.")] = None
    partitioner: PartitionerOption = Hashing.MURMUR2_RANDOM
    input: Annotated[Literal["auto", "kcat"], _partitions_option("--input",
        help="kcat: all files have lines of kcat -J, whatever their names. auto: by their names; such lines are known"
        " too.")] = "auto"
    new_offsets: Annotated[bool, _partitions_option("--new-offsets",
        help="Number the records from 0 on. Without it: offsets of the input are kept, with their gaps.")] = False
    codec: Annotated[CodecName | None, _partitions_option(
        help="Compression of batches, if the topic has no compression.type. Without it: as in the batch that a record"
        " comes from, if the input has that.")] = None
    level: Annotated[int | None, _partitions_option("--compression-level", metavar="N",
        help="Level of the codec. Without it: Kafka's default.")] = None
    batch_bytes: Annotated[int, _partitions_option("--batch-bytes", metavar="BYTES", min=1,
        help="Largest batch of several records, before compression.")] = 16_384
    prove: Annotated[bool, safety_option("--prove",
        help="Read the new partitions, and compare each record with the input, before they become visible.")] = False
    replace_empty: Annotated[bool, safety_option("--replace-empty",
        help="Replace an existing partition that never had a record, such as a broker creates.")] = False
    single_replica: SingleReplica = False
    master: Annotated[str | None, spark_option(metavar="URL",
        help="Let Spark do the work: local[N] for N threads here, spark://... for a cluster. Without it, processes of"
        " this machine do.")] = None
    conf: Conf = None
    settings: WriterSettings = WriterSettings()
    safety: Safety = Safety()
    printing: Printing = Printing()
# fmt: on


def import_(context: Context, options: ImportOptions) -> int:
    """Build new partitions from the records in files.

    A broker loads the new partitions. Timestamps, keys, values and headers are kept, and batches are written again. All
    partitions become visible at once, after the last was built. An import that fails or is killed leaves no visible
    partition, and the next import removes the rest. An existing partition is refused. Records of transactions become
    plain records, and control records are left out. Needs the extra `arrow`, or `spark` for --master.
    """
    run, engine = Run(context, options.printing.output), _engine(context.obj, options)
    need_pyarrow()
    request = _request(options)
    request.check()
    begun = run.environment.clock()
    job = _job(run.environment, options, request)
    find = partial(input_files, run.fs, options.inputs, are_lines=options.input == "kcat")
    if options.safety.dry_run:
        result = job.plan(find())
    else:
        with engine as map_each:
            result = job.run(find, map_each, run.progress)
        run.progress.erase()
    return _print(run, options, result, run.environment.clock() - begun)


def shell_line(argv: Sequence[str], paths: Collection[str]) -> str:
    """Return the command line for a shell in any directory: words in `paths` become absolute paths.

    Returns "" if the command line is not known.
    """
    words = []
    for word in argv:
        option, equals, value = word.partition("=")
        if word in paths:
            words.append(os.path.abspath(word))  # noqa: PTH100 - links are not followed
        elif equals and option.startswith("--") and value in paths:
            words.append(f"{option}={os.path.abspath(value)}")  # noqa: PTH100
        else:
            words.append(word)
    return join(["kafkalog", *words]) if words else ""


def _request(options: ImportOptions) -> ImportRequest:
    return ImportRequest(
        options.topic, topic_ids(options.topic_id or ()), options.partitions, options.new_offsets,
        options.codec, options.level, options.batch_bytes, options.prove,
        options.replace_empty, options.single_replica, options.partitioner,
    )  # fmt: skip


def _engine(environment: Environment, options: ImportOptions) -> AbstractContextManager[MapEach]:
    """Return the context of the `map_each` of the options. Raises UsageError."""
    if options.master is None and options.conf:
        raise UsageError(reason="--conf needs --master")
    spark = Spark() if options.master is None else Spark("spark", options.master, options.conf)
    return engine_of(environment, spark, as_json=options.printing.output != "text")


def _job(environment: Environment, options: ImportOptions, request: ImportRequest) -> Import:
    settings, safety, config = options.settings, options.safety, options.settings.config or ()
    fs, log_dir = environment.fs, os.path.abspath(options.log_dir)  # noqa: PTH100 - links are not followed
    broker = None if settings.broker_config is None else read_broker_properties(fs, settings.broker_config)
    named_dirs = "" if broker is None else broker.get("log.dirs", broker.get("log.dir", ""))
    of_broker = [path.strip() for path in named_dirs.split(",") if path.strip()]
    others = [path for path in of_broker if os.path.realpath(path) != os.path.realpath(log_dir)]
    if of_broker and len(others) == len(of_broker):
        raise Refused(path=log_dir, reason=f"it is none of the log.dirs of {settings.broker_config}")
    source = SettingsSource(
        fs, parse_topic_settings(config), broker,
        metadata_path=settings.metadata, log_dirs=[log_dir, *others],
    )  # fmt: skip
    policy = LockPolicy(int(safety.wait * 1000), safety.assume_offline)
    command = command_of([os.path.abspath(path) for path in options.inputs], request, tuple(config))  # noqa: PTH100
    named = [*options.inputs, options.log_dir, settings.broker_config, settings.metadata]
    repeat = shell_line(environment.argv, [path for path in named if path])
    return Import(
        fs, log_dir, request, source, environment.clock_ms(safety.now), policy, others, command, repeat=repeat
    )


def _print(run: Run, options: ImportOptions, result: ImportResult, seconds: float) -> int:
    log_dir, dry_run = options.log_dir, options.safety.dry_run
    for name in result.completed.placed:
        message = "an earlier import was interrupted after its commit; the partition is in its place now"
        run.messages.warn("completed", message, path=f"{log_dir}/{name}")
    for name in result.completed.lost:
        message = "of an earlier run, which was cut off after its commit: a broker was started before it was complete"
        step = "import its records again"
        run.messages.warn("lost", f"{message}, and removed it", path=f"{log_dir}/{name}", next_step=step)
    run.messages.report(*result.notes)
    if run.lines is not None:
        run.lines.results(result.partitions(log_dir, dry_run=dry_run))
    elif result.plan is not None:
        run.write_lines(_lines(result, log_dir, seconds, dry_run=dry_run))
    records = sum(partition.built.records for partition in result.done)
    earlier = {"completed": len(result.completed.placed), "lost": len(result.completed.lost)}
    run.codes.append(result.exit_code)
    return run.end(partitions=len(result.done), records=records, **earlier)


def _lines(result: ImportResult, log_dir: str, seconds: float, *, dry_run: bool) -> Iterator[str]:
    """Return the lines, without line ends; the last has the duration of the run."""
    plan = result.plan
    if plan is None:
        return
    offsets = "offsets of the input" if plan.keep_offsets else "new offsets"
    if dry_run:
        yield from _planned(plan, offsets)
        return
    for partition in result.done:
        built = partition.built
        line = f"{printable(partition.topic)}-{partition.partition}: {counted(built.records, 'record')}"
        line += f", offsets {built.first_offset} to {built.end_offset - 1}" if built.records else ""
        line += f", {sized(built.size_bytes)} in {counted(built.segments, 'segment')}"
        line += f", {built.transactional} of transactions, without transactions now" if built.transactional else ""
        yield line + (f"; read back the same, sha256 {partition.proof.digest}" if partition.proof is not None else "")
    for topic, origin in plan.ids.items():
        if origin.topic_id is not None:
            yield f"{printable(topic)}: topic id {origin.topic_id} ({origin.source})"
    yield "to undo the import before a broker starts, remove the directories of these partitions"
    records, size = (
        sum(getattr(partition.built, name) for partition in result.done) for name in ("records", "size_bytes")
    )
    directories = f"{counted(len(result.done), 'partition')} of {printable(log_dir)}"
    yield f"{directories}: {counted(records, 'record')}, {offsets}, {sized(size)}, {spent(seconds)}"


def _planned(plan: ImportPlan, offsets: str) -> Iterator[str]:
    for job in plan.jobs or ():
        rows = "" if job.rows < 0 else f"{counted(job.rows, 'row')} of "
        origin = plan.ids[job.topic]
        topic_id = "no topic id" if origin.topic_id is None else f"topic id {origin.topic_id} ({origin.source})"
        files = f"{rows}{counted(len(job.files), 'file')}, {sized(job.size_bytes)}"
        yield f"{printable(job.name)}: would be made of {files}; {offsets}; {topic_id}"
    if plan.jobs is None:
        size = sized(sum(file.size_bytes for file in plan.files))
        files = counted(len(plan.files), "file")
        yield f"would import {files}, {size}; {offsets}; the partitions follow from the rows"

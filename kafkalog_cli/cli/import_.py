"""`kafkalog import`: make new partitions of a log directory from the records of files."""

from enum import Enum
from functools import partial
from typing import Annotated, NamedTuple

from typer import Argument, Context, Option

from kafkalog_cli.cli.exit_codes import CHANGE_DAMAGED
from kafkalog_cli.cli.options import CodecName, PartitionerOption, SingleReplica, safety_option
from kafkalog_cli.cli.session_groups import Conf, Printing, Safety, WriterSettings, spark_option
from kafkalog_cli.ops.choices import Hashing

EXAMPLES = (
    ("Build the partitions that an export wrote", "kafkalog import lake --log-dir /var/lib/kafka"),
    (
        "Build six partitions of a topic from Parquet files, and compare each record",
        "kafkalog import orders.parquet --log-dir /var/lib/kafka --topic orders --partitions 6 --prove",
    ),
)
EXIT_CODES = CHANGE_DAMAGED

_partitions_option = partial(Option, rich_help_panel="Partitions and batches")


class ImportInput(Enum):
    """The format of the files."""

    AUTO = "auto"
    KCAT = "kcat"


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
    input: Annotated[ImportInput, _partitions_option("--input",
        help="kcat: all files have lines of kcat -J, whatever their names. auto: by their names; such lines are known"
        " too.")] = ImportInput.AUTO
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
    from kafkalog_cli.cli.import_run import ImportRun

    return ImportRun(context.obj, options).run()

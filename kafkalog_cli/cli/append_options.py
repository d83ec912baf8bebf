"""The options of `kafkalog append` that say which records are appended, and how."""

from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Annotated, NamedTuple

from typer import Option

from kafkalog_cli.cli.options import CodecName, PartitionerOption
from kafkalog_cli.ops.choices import Hashing

if TYPE_CHECKING:
    from kafkalog_cli.ops.append.verb import AppendOptions

_records_option = partial(Option, rich_help_panel="Records and batches")
_producer_option = partial(Option, rich_help_panel="Producer")


class RecordInput(Enum):
    """The format of input records; NDJSON has two names."""

    NDJSON = "ndjson"
    JSON = "json"
    LINES = "lines"
    KCAT = "kcat"


class EndingOption(Enum):
    """How a transaction is left."""

    COMMIT = "commit"
    ABORT = "abort"
    OPEN = "open"


# fmt: off
class RecordOptions(NamedTuple):
    """The format of the records, their batches and their producer."""

    input: Annotated[RecordInput, _records_option("--input",
        help="Format of the input: NDJSON from dump-log or read, one record per line, or lines of kcat -J."
        )] = RecordInput.NDJSON
    key_separator: Annotated[str | None, _records_option("--key-separator", metavar="TEXT",
        help="Text between key and value of a line.")] = None
    codec: Annotated[CodecName, _records_option("--codec",
        help="Compression of batches, if the topic has no compression.type.")] = CodecName.NONE
    compression_level: Annotated[int | None, _records_option("--compression-level", metavar="N",
        help="Level of the codec. Without it: Kafka's default.")] = None
    batch_bytes: Annotated[int, _records_option("--batch-bytes", metavar="BYTES", min=1,
        help="Largest batch of several records, before compression.")] = 16_384
    leader_epoch: Annotated[int | None, _records_option("--leader-epoch", metavar="N", min=0,
        help="Epoch of the leader that appends. Without it: the latest epoch of the log.")] = None
    producer_id: Annotated[int | None, _producer_option("--producer-id", metavar="ID", min=0,
        help="Id of an idempotent or transactional producer.")] = None
    producer_epoch: Annotated[int, _producer_option("--producer-epoch", metavar="N", min=0,
        help="Epoch of the producer.")] = 0
    first_sequence: Annotated[int | None, _producer_option("--first-sequence", metavar="N", min=0,
        help="Sequence of the first record. Without it: the next sequence of the producer.")] = None
    transaction: Annotated[EndingOption | None, _producer_option("--transaction",
        help="Append all records as one transaction, and end it so.")] = None
    topic_id: Annotated[str | None, _records_option("--topic-id", metavar="ID",
        help="Topic id for a new partition. Without it: the id in the metadata log.")] = None
    keep_offsets: Annotated[bool, _records_option("--keep-offsets",
        help="Keep the offsets, timestamp types and leader epochs of the records, as a follower does.")] = False
    skip_records: Annotated[list[str] | None, _records_option("--skip-records", metavar="[PARTITION:]N",
        help="Leave out the first N records of the input, which an interrupted run has appended. With several"
        " partitions: PARTITION:N for each. An interrupted run prints the command.")] = None
    partitioner: PartitionerOption = Hashing.MURMUR2_RANDOM
    coordinator_epoch: Annotated[int, _producer_option("--coordinator-epoch", metavar="N", min=0,
        help="Epoch of the coordinator that ends the transaction.")] = 0
# fmt: on

    def checked(self) -> "AppendOptions":
        """Return the options as an append takes them. Raises UsageError if they contradict each other."""
        from dataclasses import fields

        from kafkalog_cli.ops.append.batching import Writing
        from kafkalog_cli.ops.append.inputs import parse_skipped
        from kafkalog_cli.ops.append.verb import AppendOptions

        chosen = {one.name: getattr(self, one.name) for one in fields(Writing)}
        writing = Writing(**{name: one.value if isinstance(one, Enum) else one for name, one in chosen.items()})
        skipped = parse_skipped(self.skip_records or ())
        is_ndjson, is_kcat = self.input in (RecordInput.NDJSON, RecordInput.JSON), self.input is RecordInput.KCAT
        found = AppendOptions(
            writing, is_ndjson, self.key_separator, self.topic_id, skipped, is_kcat, self.partitioner
        )  # fmt: skip
        found.check()
        return found

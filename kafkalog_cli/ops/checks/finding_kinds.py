"""The kinds of findings and their severities."""

from enum import Enum, unique
from typing import NamedTuple

from kafkalog_cli.errors import ExitCode
from kafkalog_cli.ops.steps import ByReplicas, Step, Steps

MAX_TOLD = 20
"""The largest number of findings of one kind per segment; further findings are only counted."""


@unique
class Severity(Enum):
    """How bad a finding is. The value is the word that text and machine output use."""

    INFO = "info"
    WARNING = "warning"
    CORRUPTION = "corruption"

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a target whose worst finding has this severity."""
        return _CODES[self]


_CODES = {Severity.INFO: ExitCode.OK, Severity.WARNING: ExitCode.WARNINGS, Severity.CORRUPTION: ExitCode.CORRUPTION}


@unique
class FindingKind(Enum):
    """Every kind of finding, in the order of docs/findings.md. The value is the word that machine output uses."""

    # the chain of batches
    TORN_TAIL = "torn-tail"
    ZERO_TAIL = "zero-tail"
    BAD_TAIL_BATCH = "bad-tail-batch"
    DAMAGED_RANGE = "damaged-range"
    ZEROED_RANGE = "zeroed-range"
    CRC_MISMATCH = "crc-mismatch"
    UNREADABLE_RANGE = "unreadable-range"
    BATCH_TOO_LARGE = "batch-too-large"
    UNKNOWN_MAGIC = "unknown-magic"
    OFFSETS_NOT_ASCENDING = "offsets-not-ascending"
    OFFSET_OUTSIDE_SEGMENT = "offset-outside-segment"
    OFFSET_GAP = "offset-gap"
    MISSING_OFFSETS = "missing-offsets"
    EPOCH_GOES_BACK = "epoch-goes-back"
    EMPTY_SEGMENT = "empty-segment"
    SEGMENT_TOO_LARGE = "segment-too-large"
    # batches and records
    FUTURE_TIMESTAMP = "future-timestamp"
    TIMESTAMP_UNIT = "timestamp-unit"
    NEGATIVE_TIMESTAMP = "negative-timestamp"
    MAX_TIMESTAMP = "max-timestamp"
    RECORD_COUNT = "record-count"
    PRODUCER_FIELDS = "producer-fields"
    INVALID_RECORD = "invalid-record"
    DECOMPRESSION = "decompression-failed"
    UNKNOWN_CODEC = "unknown-codec"
    OUTPUT_TOO_LARGE = "output-too-large"
    INNER_MESSAGE = "invalid-inner-message"
    PACKED_VALUE = "packed-value"
    NEGATIVE_LENGTH = "negative-length"
    RECORD_OFFSET = "record-offset"
    CONTROL_RECORD = "invalid-control-record"
    # files beside the log
    INDEX_MISSING = "offset-index-missing"
    TIME_INDEX_MISSING = "time-index-missing"
    INDEX_WRONG = "offset-index-wrong"
    INDEX_INEXACT = "offset-index-inexact"
    TIME_INDEX_WRONG = "time-index-wrong"
    TIME_INDEX_INEXACT = "time-index-inexact"
    TXN_INDEX_WRONG = "txn-index-wrong"
    TXN_INDEX_INEXACT = "txn-index-inexact"
    INDEX_ZERO_TAIL = "index-zero-tail"
    ENTRIES_BEHIND_TAIL = "entries-behind-tail"
    END_NOT_SEEN = "end-not-seen"
    SNAPSHOT_WRONG = "producer-snapshot-wrong"
    SNAPSHOT_BEYOND_END = "producer-snapshot-beyond-end"
    SNAPSHOT_INEXACT = "producer-snapshot-inexact"
    ENTRIES_NOT_CHECKED = "entries-not-checked"
    SNAPSHOTS_MISSING = "producer-snapshots-missing"
    EPOCHS_WRONG = "leader-epochs-wrong"
    EPOCHS_MISSING = "leader-epochs-missing"
    # names and leftovers
    ORPHAN_INDEX = "orphan-index"
    LEFTOVER_CLEANED = "leftover-cleaned"
    LEFTOVER_SWAP = "leftover-swap"
    LEFTOVER_DELETED = "leftover-deleted"
    LEFTOVER_TEMPORARY = "leftover-temporary"
    BAD_NAME = "bad-name"
    UNKNOWN_FILE = "unknown-file"
    ODD_FILE = "odd-file"
    ODD_ENTRY = "odd-entry"
    MARKED_DIRECTORY = "marked-directory"
    FOREIGN_DIRECTORY = "foreign-directory"
    IMPORT_CUT_OFF = "import-cut-off"
    IMPORT_STAGED = "import-staged"
    # checkpoints and metadata of a log directory
    RECOVERY_POINT_BEYOND_END = "recovery-point-beyond-end"
    HIGH_WATERMARK_BEYOND_END = "high-watermark-beyond-end"
    LOG_START_BEYOND_END = "log-start-beyond-end"
    CLEANER_BEYOND_END = "cleaner-offset-beyond-end"
    CHECKPOINTS_DISAGREE = "checkpoints-disagree"
    CHECKPOINT_DAMAGED = "checkpoint-damaged"
    CHECKPOINT_MALFORMED = "checkpoint-malformed"
    META_PROPERTIES = "meta-properties"
    META_PROPERTIES_MISSING = "meta-properties-missing"
    META_PROPERTIES_DIFFER = "meta-properties-differ"
    DIRECTORY_ID = "directory-id-unknown"
    METADATA_LOG_LOST = "metadata-log-lost"
    SHUTDOWN_MARKER = "shutdown-marker"
    MARKER_HELD = "shutdown-marker-held"
    MARKERS_DIFFER = "shutdown-markers-differ"
    METADATA_FILE = "partition-metadata-damaged"
    QUORUM_STATE = "quorum-state-damaged"
    METADATA_LOG = "metadata-log"
    METADATA_SNAPSHOT = "metadata-snapshot-damaged"
    METADATA_SNAPSHOT_MISSING = "metadata-snapshot-missing"
    METADATA_RECORD = "metadata-record"
    METADATA_NEWER = "metadata-newer"
    METADATA_FILE_MISSING = "partition-metadata-missing"
    TOPIC_ID_DIFFERS = "topic-id-differs"
    NOT_IN_METADATA = "not-in-metadata"
    NOT_A_REPLICA = "not-a-replica"
    SAME_TOPIC_ID = "same-topic-id"
    TWIN_DIRECTORIES = "twin-directories"
    # replicas
    DIVERGED = "diverged"
    REPLICA_BEHIND = "replica-behind"
    MORE_COMPLETE = "more-complete"
    RECORDS_MISSING = "records-missing"
    ONLY_ON_ONE_SIDE = "only-on-one-side"
    NOT_COMPARED = "not-compared"
    NOT_COMPARABLE = "not-comparable"
    # the machine
    NOT_READ = "not-read"
    NOT_PERMITTED = "not-permitted"
    MOUNTED_READ_ONLY = "mounted-read-only"
    LOCKED = "locked"


@unique
class StartAction(Enum):
    """A kind of step of a broker that starts. The value is the word in the output."""

    NOTHING = "nothing"  # a broker is running
    DOES_NOT_START = "does-not-start"
    TAKES_OFFLINE = "takes-offline"
    TRUSTS = "trusts"
    RECOVERS = "recovers"
    RESETS = "resets"
    CUTS = "cuts"
    REMOVES = "removes"
    DELETES = "deletes"  # the directory of a topic that was deleted
    REBUILDS = "rebuilds"
    KEEPS = "keeps"  # a directory that no client can read
    SETS_ASIDE = "sets-aside"
    LOWERS = "lowers"


class Diagnosis(NamedTuple):
    """A row of the table: how bad a kind of finding is, what a broker does about it, and what to do.

    `broker_effect` covers a broker's start and its running. It is "" if the effect depends on the finding, which then
    names it. There are no `steps` if nothing has to be done or, again, if the finding names them. `at_start`: what a
    broker does at its next start, if that is known of each finding of the kind.
    """

    severity: Severity
    broker_effect: str
    steps: Steps
    at_start: tuple[StartAction, ...]


def row(
    severity: Severity, broker_effect: str, *steps: Step | ByReplicas, at_start: StartAction | None = None
) -> Diagnosis:
    """Return a row of the table."""
    return Diagnosis(severity, broker_effect, steps, () if at_start is None else (at_start,))

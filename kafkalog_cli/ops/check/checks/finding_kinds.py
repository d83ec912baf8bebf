"""The kinds of findings: how bad each is, what a broker does about it, and the next steps."""

from __future__ import annotations

from enum import Enum, unique
from functools import partial

from kafkalog_cli.errors import ExitCode
from kafkalog_cli.ops.steps import (
    AS_A_NODE,
    COPY_BATCHES,
    EPOCHS_STAY,
    KEEP_A_COPY,
    LOWER_WATERMARK,
    MOVE_ASIDE,
    REBUILD_INDEXES,
    RECOVER,
    REPLICATE,
    SALVAGE,
    VERIFY,
    ByReplicas,
    Step,
    Steps,
    Word,
    introduced,
    nothing,
    on_condition,
    together,
)

MAX_FINDINGS = 20
"""The largest number of findings of one kind per segment; further findings are only counted."""


@unique
class Severity(Enum):
    """How bad a finding is. The value is the word that text and machine output use."""

    INFO = "info"
    WARNING = "warning"
    CORRUPTION = "corruption"

    __hash__ = object.__hash__  # see FileKind

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a target whose worst finding has this severity."""
        return _CODES[self]


_CODES = {Severity.INFO: ExitCode.OK, Severity.WARNING: ExitCode.WARNINGS, Severity.CORRUPTION: ExitCode.CORRUPTION}


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


_RECOVER = Step("", RECOVER, "cuts the tail off and keeps the bytes")
_INDEXES = Step("", REBUILD_INDEXES, "rebuilds it from the log")
_IF_WANTED = Step("", REBUILD_INDEXES, "rebuilds it from the log, if wanted")
_STATE = Step("", RECOVER, "rebuilds it from the log")
_REFUSES = "a broker does not start with it"
_GOES = "a broker that starts deletes it"
_WRITE_ID = (*RECOVER, "--metadata", Word.METADATA_DIRECTORY)
_WRITES_ID = Step("", _WRITE_ID, "writes it with the topic id of the metadata log in DIR")
_KEEP_A_COPY = (
    Step("if the records are not needed, nothing has to be done"),
    Step("A broker that starts renames the directory to -stray"),
    Step("", KEEP_A_COPY, "makes a copy of the records"),
)


def _restore(what: str) -> tuple[Step, ...]:
    return (
        Step(f"{what} from a backup, or write it again with the ids that it had"),
        Step(
            "They are version=1, cluster.id and node.id as in the broker's other directories, and directory.id as in"
            " the metadata log (RegisterBrokerRecord)"
        ),
        Step("Do not format the directory: with a new directory.id its partitions have no leader"),
    )


NEVER_LED = "with controller.quorum.bootstrap.servers and no other controller, the node waits for a leader for ever"
BEGINS_ANEW = "the node begins an empty cluster and renames every partition to -stray"
SET_ALL_ASIDE = f"with controller.quorum.voters and no other controller, {BEGINS_ANEW}"
VOTES_ALONE = f"the first snapshot has the voters: if there is no other, {BEGINS_ANEW}"
"""What a node does without its metadata log, by the kind of its quorum."""

_OF_CONTENTS = (
    SALVAGE,
    Step("A batch with a correct checksum is in the copy, too, and perhaps in other replicas"),
    Step("Then the only remedy is to set consumers to the offset after it"),
)
_READABLE = nothing(" to the log: consumers get the records as they are")
_CUTS_AT_IT = (
    "after an unclean stop a broker reads the segments from the recovery point on. In them it cuts the log there, and"
    " sets all later segments aside. In other segments it keeps the damage, and consumers fail at it"
)
_CONSUMERS_FAIL = "a broker does not look inside batches: it serves it, and consumers fail at it"

_Row = tuple[str, Severity, str, Steps, tuple[StartAction, ...]]


def _row(
    severity: Severity, word: str, broker_effect: str, *steps: Step | ByReplicas, at_start: StartAction | None = None
) -> _Row:
    return word, severity, broker_effect, steps, () if at_start is None else (at_start,)


_info, _warning, _corruption = (
    partial(_row, Severity.INFO),
    partial(_row, Severity.WARNING),
    partial(_row, Severity.CORRUPTION),
)


@unique
class FindingKind(Enum):
    """Every kind of finding, in the order of docs/findings.md. The value is the word that machine output uses.

    `broker_effect` is what a broker does about it at its start and while it runs, "" if that depends on the finding,
    which then names it. There are no `steps` if nothing has to be done or, again, if the finding names them.
    `at_start`: what a broker does at its next start, if that is known of each finding of the kind.
    """

    __hash__ = object.__hash__  # see FileKind

    severity: Severity
    broker_effect: str
    steps: Steps
    at_start: tuple[StartAction, ...]

    def __new__(cls, word: str, *row: object) -> FindingKind:
        """Give a kind the fields of its row."""
        kind = object.__new__(cls)
        kind._value_ = word
        kind.severity, kind.broker_effect, kind.steps, kind.at_start = row  # type: ignore[assignment]
        return kind

    # the chain of batches
    TORN_TAIL = _warning(
        "torn-tail",
        "after an unclean stop a broker cuts it off; after a clean stop it stays, and the log may end at the last"
        " segment's base offset for readers",
        _RECOVER,
    )
    ZERO_TAIL = _warning(
        "zero-tail", "after an unclean stop a broker cuts it off; after a clean stop it does not start", _RECOVER
    )
    BAD_TAIL_BATCH = _warning(
        "bad-tail-batch",
        "after an unclean stop a broker cuts it off; after a clean stop it keeps it, and consumers fail at it",
        _RECOVER,
    )
    DAMAGED_RANGE = _corruption("damaged-range", _CUTS_AT_IT, SALVAGE)
    ZEROED_RANGE = _corruption(
        "zeroed-range",
        "after an unclean stop a broker cuts the log there and sets all later segments aside; where it only reads the"
        " segment at start, it does not start",
        SALVAGE,
    )
    CRC_MISMATCH = _corruption("crc-mismatch", _CUTS_AT_IT, SALVAGE)
    UNREADABLE_RANGE = _corruption(
        "unreadable-range",
        "a broker takes the whole log directory offline when it reads there",
        Step("use another disk from now on", end="; "),
        SALVAGE,
    )
    BATCH_TOO_LARGE = _corruption(
        "batch-too-large",
        "a broker reads a batch of any size that lies within the file",
        Step("if the size is right, verify with a larger limit", (*VERIFY, "--max-batch-bytes", Word.BATCH_BYTES)),
        Step("Else", end=", "),
        SALVAGE,
    )
    UNKNOWN_MAGIC = _corruption(
        "unknown-magic", "a broker treats it as a batch of the newest format; consumers fail at it", SALVAGE
    )
    OFFSETS_NOT_ASCENDING = _corruption(
        "offsets-not-ascending",
        "consumers miss records or read them twice. A broker notices it only where an index entry would go back: it"
        " then empties the segment, or does not start",
        SALVAGE,
    )
    OFFSET_OUTSIDE_SEGMENT = _corruption(
        "offset-outside-segment", "a broker that recovers the segment splits it, or does not start", SALVAGE
    )
    OFFSET_GAP = _info("offset-gap", "none: compaction leaves gaps, and consumers pass over them")
    MISSING_OFFSETS = _warning(
        "missing-offsets",
        "none: consumers pass over the gap without an error. The records are lost, unless the topic was once compacted:"
        " an earlier compaction may explain the gap",
        Step("compare with another replica or a backup (--against)", end="; "),
        Step(
            "if the topic is or was compacted, that explains the gap",
            (*VERIFY, "--config", "cleanup.policy=compact"),
        ),
    )
    EPOCH_GOES_BACK = _corruption(
        "epoch-goes-back",
        "a broker does not notice; replicas that compare epochs may cut their logs at the wrong place",
        EPOCHS_STAY,
    )
    EMPTY_SEGMENT = _info("empty-segment", "none: it is kept")
    SEGMENT_TOO_LARGE = _corruption("segment-too-large", "a broker does not open a segment of 2 GiB or more", SALVAGE)
    # batches and records
    FUTURE_TIMESTAMP = _warning(
        "future-timestamp",
        "retention by time keeps the segment until that time is past; look-ups by time find it too early",
        _READABLE,
        Step("Correct the clock of the producer"),
        Step("retention.bytes removes the segment, retention.ms does not"),
    )
    TIMESTAMP_UNIT = _warning(
        "timestamp-unit",
        "retention by time deletes the segment at once (seconds) or never (microseconds, nanoseconds)",
        _READABLE,
        Step("Have the producer send milliseconds", end="; "),
        Step("until these records are removed, set retention.ms=-1 and retention.bytes for the topic"),
    )
    NEGATIVE_TIMESTAMP = _warning(
        "negative-timestamp",
        "look-ups by time do not find it; retention uses the modification time of the file",
        _READABLE,
        Step("Have the producer send milliseconds since 1970"),
    )
    MAX_TIMESTAMP = _warning(
        "max-timestamp", "look-ups by time and retention use the header, not the records", _READABLE
    )
    RECORD_COUNT = _corruption("record-count", _CONSUMERS_FAIL, *_OF_CONTENTS)
    PRODUCER_FIELDS = _warning(
        "producer-fields",
        "a broker does not check these fields in its log, and serves the batch. If they were damaged, it may take the"
        " producer's next batch for a duplicate, or show records of an aborted transaction",
        *on_condition("no client of Kafka writes such a batch: if another replica is in sync", REPLICATE),
    )
    INVALID_RECORD = _corruption("invalid-record", _CONSUMERS_FAIL, *_OF_CONTENTS)
    DECOMPRESSION = _corruption(
        "decompression-failed",
        "a broker does not decompress at start: it serves it, and consumers and the cleaner fail at it",
        *_OF_CONTENTS,
    )
    UNKNOWN_CODEC = _corruption("unknown-codec", _CONSUMERS_FAIL, *_OF_CONTENTS)
    OUTPUT_TOO_LARGE = _corruption(
        "output-too-large",
        "a broker that cleans the log, and consumers, need that much memory",
        Step(
            "if the size may be right, verify with the largest limits, for which up to 2 GiB of memory are needed",
            (*VERIFY, "--level", "deep", "--max-output-bytes", "2147483647", "--max-ratio", "2147483647"),
        ),
        Step("A batch that is over these limits too was made to do harm", end="; "),
        Step("the topic's retention removes it"),
    )
    INNER_MESSAGE = _corruption("invalid-inner-message", _CONSUMERS_FAIL, *_OF_CONTENTS)
    PACKED_VALUE = _warning(
        "packed-value",
        "a broker serves it as one record with the compressed bytes as its value: consumers do not get the messages"
        " inside",
        Step("ask the owner of the producers: if values are meant to be such sets, nothing has to be done"),
        *on_condition("Else, if another replica is in sync", REPLICATE),
    )
    NEGATIVE_LENGTH = _warning(
        "negative-length",
        "a broker serves it, and Java's consumer takes the key, value or header as null; other clients may fail",
        *on_condition("no client of Kafka writes such a length: if another replica is in sync", REPLICATE),
    )
    RECORD_OFFSET = _corruption(
        "record-offset",
        "a broker does not check the offsets of records; consumers get them as they are, out of order or twice",
        *_OF_CONTENTS,
    )
    CONTROL_RECORD = _corruption(
        "invalid-control-record",
        "a broker that rebuilds the producers' state fails at it, or treats the transaction as still open",
        SALVAGE,
    )
    # files beside the log
    INDEX_MISSING = _warning(
        "offset-index-missing", "a broker that starts rebuilds it, and checks the segment's CRCs", _INDEXES
    )
    TIME_INDEX_MISSING = _warning(
        "time-index-missing",
        "after a clean stop a broker leaves it empty: retention uses the modification time of the file,"
        " and look-ups by time find wrong offsets",
        _INDEXES,
    )
    INDEX_WRONG = _corruption(
        "offset-index-wrong",
        "a broker does not check it after a clean stop: readers miss records, or the log ends too early",
        _INDEXES,
    )
    INDEX_INEXACT = _warning(
        "offset-index-inexact",
        "none: readers still find the right records",
        _IF_WANTED,
    )
    TIME_INDEX_WRONG = _corruption(
        "time-index-wrong",
        "a broker does not check it after a clean stop: look-ups by time find wrong offsets, retention"
        " may delete too early or never",
        _INDEXES,
    )
    TIME_INDEX_INEXACT = _warning(
        "time-index-inexact",
        "look-ups by time may find another record, retention may delete a little early",
        _IF_WANTED,
    )
    TXN_INDEX_WRONG = _corruption(
        "txn-index-wrong",
        "consumers with read_committed get records of aborted transactions, or miss committed records",
        _INDEXES,
    )
    TXN_INDEX_INEXACT = _warning("txn-index-inexact", "a broker that starts rebuilds it if it notices", _INDEXES)
    INDEX_ZERO_TAIL = _warning(
        "index-zero-tail",
        "a broker reads the zeros as entries (KAFKA-10207): look-ups in the segment begin at its start",
        _INDEXES,
    )
    ENTRIES_BEHIND_TAIL = _warning(
        "entries-behind-tail",
        "follows from the damaged tail: after an unclean stop a broker rebuilds it; after a clean stop the log ends at"
        " the last segment's base offset for readers",
        _RECOVER,
    )
    END_NOT_SEEN = _warning(
        "end-not-seen",
        "after a clean stop a broker uses an earlier end of the log: later records are lost to readers,"
        " and overwritten",
        Step("", RECOVER, "rebuilds the indexes", when="before the broker starts"),
    )
    SNAPSHOT_WRONG = _corruption(
        "producer-snapshot-wrong",
        "a snapshot that cannot be read is deleted, and an older one used; a readable snapshot is used as it is:"
        " duplicates or sequence errors",
        _STATE,
    )
    SNAPSHOT_BEYOND_END = _warning(
        "producer-snapshot-beyond-end", "a broker that starts deletes it, and replays the log from an older one", _STATE
    )
    SNAPSHOT_INEXACT = _warning("producer-snapshot-inexact", "none: a broker can read it", _STATE)
    ENTRIES_NOT_CHECKED = _info("entries-not-checked", "none: a broker reads it")
    SNAPSHOTS_MISSING = _warning(
        "producer-snapshots-missing",
        "after a clean stop a broker forgets all producers; after an unclean stop it replays the whole log",
        _STATE,
    )
    EPOCHS_WRONG = _corruption(
        "leader-epochs-wrong",
        "a broker uses it as it is: followers may cut their logs at the wrong place; an unreadable file keeps the log"
        " directory offline",
        _STATE,
    )
    EPOCHS_MISSING = _warning(
        "leader-epochs-missing", "a broker knows no epoch before the next: followers fetch by offset", _STATE
    )
    # names and leftovers
    ORPHAN_INDEX = _warning(
        "orphan-index",
        _GOES,
        Step("find out where its log is", end="; "),
        Step("", RECOVER, "removes the index and keeps it for undo"),
    )
    LEFTOVER_CLEANED = _warning("leftover-cleaned", "", Step("", RECOVER, "does the same, and keeps it for undo"))
    LEFTOVER_SWAP = _warning(
        "leftover-swap",
        "",
        Step("", RECOVER, "does the same, and can be undone"),
        Step("For a damaged file without a segment in its place, it prints the command that copies the rest"),
    )
    LEFTOVER_DELETED = _info("leftover-deleted", _GOES)
    LEFTOVER_TEMPORARY = _info("leftover-temporary", "none: it is overwritten when it is needed again")
    BAD_NAME = _corruption("bad-name", _REFUSES, Step("rename it, before a broker starts", MOVE_ASIDE))
    UNKNOWN_FILE = _info("unknown-file", "none: a broker does not read it")
    ODD_FILE = _warning(
        "odd-file",
        "a broker that opens it fails, or waits for ever",
        Step("find out who made it", end="; "),
        Step("", MOVE_ASIDE, "moves it away", end=", and "),
        Step("", VERIFY, "checks what is missing then"),
    )
    ODD_ENTRY = _warning(
        "odd-entry",
        "none: a broker does not read it. kafkalog does not change it, but somebody may have planted it",
        Step("find out who made it", end="; "),
        Step("", ("rm", "-r", Word.FILE), "removes it (or only the link, if it is a link)"),
    )
    MARKED_DIRECTORY = _info("marked-directory", "")
    FOREIGN_DIRECTORY = _warning(
        "foreign-directory",
        _REFUSES,
        Step("move it out of the log directory, before a broker starts", ("mv", "-nT", Word.FILE, Word.FILE_AWAY)),
        at_start=StartAction.DOES_NOT_START,
    )
    IMPORT_CUT_OFF = _warning(
        "import-cut-off",
        "a broker that starts removes the partitions that are not in their places yet: their records are lost then",
        Step("repeat the import before a broker starts: it moves them to their places, and so does any other import"),
    )
    IMPORT_STAGED = _info(
        "import-staged",
        "a broker that starts removes it",
        Step("", ("kafkalog", "purge", Word.PATH), "removes it, and so does the next import"),
    )
    # checkpoints and metadata of a log directory
    RECOVERY_POINT_BEYOND_END = _warning(
        "recovery-point-beyond-end",
        "after an unclean stop a broker checks only the last segment: it assumes that the others are on the disk",
        Step("", RECOVER, "checks all segments and corrects the line"),
    )
    HIGH_WATERMARK_BEYOND_END = _warning(
        "high-watermark-beyond-end",
        "a broker that starts lowers it to the end of the log",
        LOWER_WATERMARK,
        at_start=StartAction.LOWERS,
    )
    LOG_START_BEYOND_END = _corruption(
        "log-start-beyond-end",
        "a broker that starts deletes every segment and begins an empty log at the checkpoint's offset",
        Step("if the records were deleted on purpose, nothing has to be done", end="; "),
        Step("else do not start a broker before the line is corrected"),
    )
    CLEANER_BEYOND_END = _warning(
        "cleaner-offset-beyond-end", "a cleaner starts again at the log's start", Step("", RECOVER, "removes the line")
    )
    CHECKPOINTS_DISAGREE = _warning(
        "checkpoints-disagree",
        "a broker uses the larger of log start and the other offset",
        Step("", RECOVER, "corrects the line"),
    )
    CHECKPOINT_DAMAGED = _warning(
        "checkpoint-damaged",
        "a broker uses 0 for every partition in the file: it recovers all logs, or forgets all log starts",
        Step("", RECOVER, "rebuilds the file from the lines that can be read"),
        at_start=StartAction.RESETS,
    )
    CHECKPOINT_MALFORMED = _corruption(
        "checkpoint-malformed",
        "a broker takes the whole log directory offline when it reads the file, and stops if it has no other",
        Step("", RECOVER, "rebuilds the file from the lines that can be read"),
        at_start=StartAction.TAKES_OFFLINE,
    )
    META_PROPERTIES = _corruption(
        "meta-properties",
        _REFUSES,
        Step("move it aside", MOVE_ASIDE),
        *_restore("Restore it"),
        at_start=StartAction.DOES_NOT_START,
    )
    META_PROPERTIES_MISSING = _warning(
        "meta-properties-missing",
        "a broker treats the directory as new: it does not start before the directory is formatted",
        *_restore("restore the file"),
        at_start=StartAction.DOES_NOT_START,
    )
    META_PROPERTIES_DIFFER = _corruption(
        "meta-properties-differ",
        "a broker does not start with directories of several clusters or brokers, or with one directory id twice",
        Step("the administrator decides which directory is the copy: a broker must have only one of them in log.dirs"),
        at_start=StartAction.DOES_NOT_START,
    )
    DIRECTORY_ID = _corruption(
        "directory-id-unknown",
        "the partitions here have no leader, since the cluster assigns them to another directory id",
        *_restore("restore meta.properties"),
        at_start=StartAction.TAKES_OFFLINE,
    )
    METADATA_LOG_LOST = _corruption(
        "metadata-log-lost",
        f"{SET_ALL_ASIDE}; {NEVER_LED}",
        Step("do not start the node before its metadata log is there again: copy __cluster_metadata-0 from a backup"),
        Step("If other controllers are running, the node fetches it from them, and nothing has to be done"),
    )
    SHUTDOWN_MARKER = _warning(
        "shutdown-marker",
        "a broker starts as after a clean stop, but without its epoch: it leaves every in-sync replica set",
        nothing(": a broker removes the file when it starts, and writes a new file when it stops"),
    )
    MARKER_HELD = _info(
        "shutdown-marker-held",
        "it starts as after an unclean stop: it recovers all partitions, and leaves every in-sync replica set",
        Step(
            "",
            ("kafkalog", "undo", Word.PATH, Word.RUN),
            "of the runs that it names restores the marker, with the bytes that they cut off",
        ),
    )
    MARKERS_DIFFER = _warning(
        "shutdown-markers-differ",
        "a broker sends no epoch to the controller: it leaves every in-sync replica set; directories without a marker"
        " are recovered",
        nothing(": the broker recovers what it must, and comes back into the in-sync replica sets by itself"),
    )
    METADATA_FILE = _corruption(
        "partition-metadata-damaged",
        "a broker takes the log directory offline",
        _WRITES_ID,
        at_start=StartAction.TAKES_OFFLINE,
    )
    QUORUM_STATE = _corruption(
        "quorum-state-damaged",
        "the node does not start: it cannot read its vote and its epoch",
        Step(
            "",
            MOVE_ASIDE,
            "moves the file away: the node takes its epoch from the metadata log, and from the other controllers,"
            " if there are any",
        ),
        Step("A controller that voted in the present epoch could then vote again in it"),
        at_start=StartAction.DOES_NOT_START,
    )
    METADATA_LOG = _corruption(
        "metadata-log",
        "the node does not start, or cuts its metadata log: records are lost",
        *AS_A_NODE,
        at_start=StartAction.DOES_NOT_START,
    )
    METADATA_SNAPSHOT = _corruption(
        "metadata-snapshot-damaged",
        "if it is the newest snapshot, the node does not start, or takes what it can read for the whole state",
        *AS_A_NODE,
    )
    METADATA_SNAPSHOT_MISSING = _corruption(
        "metadata-snapshot-missing",
        "the node does not start: Inconsistent snapshot state",
        *AS_A_NODE,
        at_start=StartAction.DOES_NOT_START,
    )
    METADATA_RECORD = _corruption(
        "metadata-record",
        "the node does not start: its controller ends at this record",
        *AS_A_NODE,
        at_start=StartAction.DOES_NOT_START,
    )
    METADATA_NEWER = _corruption(
        "metadata-newer",
        "the node does not start: its Kafka must be as new as the record",
        *AS_A_NODE,
        at_start=StartAction.DOES_NOT_START,
    )
    METADATA_FILE_MISSING = _warning(
        "partition-metadata-missing",
        "a broker in KRaft mode treats it as stray: it renames the directory to -stray and starts an empty partition",
        Step("", _WRITE_ID, "writes it with the topic id of the metadata log in DIR, before a broker starts"),
        at_start=StartAction.SETS_ASIDE,
    )
    TOPIC_ID_DIFFERS = _warning(
        "topic-id-differs",
        "a broker treats it as stray: it renames the directory to -stray and starts an empty partition",
        *introduced("decide before a broker starts which data are right", _KEEP_A_COPY),
        at_start=StartAction.SETS_ASIDE,
    )
    NOT_IN_METADATA = _warning(
        "not-in-metadata",
        "a broker treats it as stray: it renames the directory to -stray",
        *_KEEP_A_COPY,
        at_start=StartAction.SETS_ASIDE,
    )
    NOT_A_REPLICA = _warning(
        "not-a-replica",
        "this broker is not one of the replicas: it renames the directory to -stray",
        *_KEEP_A_COPY,
        at_start=StartAction.SETS_ASIDE,
    )
    SAME_TOPIC_ID = _corruption(
        "same-topic-id",
        "a broker keeps both: one has a name that no topic has, so that its records are never read or deleted",
        Step("find out which directory holds the data, and move the other away"),
    )
    TWIN_DIRECTORIES = _corruption(
        "twin-directories",
        "a broker does not start with a partition in two of its log directories",
        Step("keep the more complete directory (--against compares them), and move the other away"),
        at_start=StartAction.DOES_NOT_START,
    )
    # replicas
    DIVERGED = _corruption(
        "diverged",
        "brokers compare leader epochs, not contents: a follower with other batches under the same epoch stays so",
        Step("keep the replica of the leader"),
        *introduced("If this is the other replica", REPLICATE),
    )
    REPLICA_BEHIND = _info("replica-behind", "a follower fetches the records that it lacks")
    MORE_COMPLETE = _info("more-complete", "a follower fetches the records that it lacks from the leader")
    RECORDS_MISSING = _corruption(
        "records-missing",
        "none: consumers pass over the gap without an error, while another replica has the records",
        *on_condition("if the other replica is in sync", REPLICATE),
        Step("Else, copy the other replica to its place before a broker starts"),
    )
    ONLY_ON_ONE_SIDE = _warning(
        "only-on-one-side",
        "",
        Step("give a directory that holds the partition to --against"),
        Step("", VERIFY, "checks this directory alone"),
    )
    NOT_COMPARED = _warning(
        "not-compared",
        "",
        Step("give another directory of the same partition, under any name that no other partition has, to --against"),
        Step("", VERIFY, "checks this directory alone"),
    )
    NOT_COMPARABLE = _info("not-comparable", "none: cleaning or deletion went further on one side")
    # the machine
    NOT_READ = _warning(
        "not-read",
        "a broker that cannot read it takes the log directory offline",
        Step(
            "where permission is missing, verify as the user that the broker runs as, or as root",
            ("sudo", *VERIFY),
        ),
        Step("After an I/O error, copy the readable batches to ./salvaged on another disk", COPY_BATCHES),
    )
    NOT_PERMITTED = _warning(
        "not-permitted",
        "it does not start, or takes the log directory offline, when it opens the file",
        together(
            [("sudo", "chown", Word.USER, Word.FILE), ("sudo", "chmod", "u+rw", Word.FILE)],
            "give the file to the user of the log directory",
        ),
    )
    MOUNTED_READ_ONLY = _info(
        "mounted-read-only",
        "a broker does not start",
        Step("", ("sudo", "mount", "-o", "remount,rw", Word.PATH), "permits it to write, unless the disk fails"),
        at_start=StartAction.DOES_NOT_START,
    )
    LOCKED = _info(
        "locked",
        "a broker is running on it",
        Step("the findings may change while it runs"),
        Step("Repeat later", VERIFY),
    )

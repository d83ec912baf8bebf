"""The diagnoses of logs and of the files beside them, per kind of finding: severity, effect on a broker, next step."""

from kafkalog_cli.ops.checks.finding_kinds import FindingKind, Severity, StartAction, row
from kafkalog_cli.ops.steps import (
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
    Step,
    Word,
    nothing,
)

_INFO, _WARNING, _CORRUPTION = Severity.INFO, Severity.WARNING, Severity.CORRUPTION

_RECOVER = Step("", RECOVER, " cuts the tail off and keeps the bytes")
_INDEXES = Step("", REBUILD_INDEXES, " rebuilds it from the log")
_STATE = Step("", RECOVER, " rebuilds it from the log")
_REFUSES = "a broker does not start with it"
_GOES = "a broker that starts deletes it"
_WRITE_ID = (*RECOVER, "--metadata", Word.METADATA_DIRECTORY)
_WRITES_ID = Step("", _WRITE_ID, " writes it with the topic id of the metadata log in DIR")
_KEEP_A_COPY = (
    Step("if the records are not needed, nothing has to be done"),
    Step("A broker that starts renames the directory to -stray"),
    Step("", KEEP_A_COPY, " makes a copy of the records"),
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


FILE_DIAGNOSES = {
    # files beside the log
    FindingKind.INDEX_MISSING: row(
        _WARNING, "a broker that starts rebuilds it, and checks the segment's CRCs", _INDEXES
    ),
    FindingKind.TIME_INDEX_MISSING: row(
        _WARNING,
        "after a clean stop a broker leaves it empty: retention uses the modification time of the file,"
        " and look-ups by time find wrong offsets",
        _INDEXES,
    ),
    FindingKind.INDEX_WRONG: row(
        _CORRUPTION,
        "a broker does not check it after a clean stop: readers miss records, or the log ends too early",
        _INDEXES,
    ),
    FindingKind.INDEX_INEXACT: row(
        _WARNING, "none: readers still find the right records", _INDEXES._replace(after=_INDEXES.after + ", if wanted")
    ),
    FindingKind.TIME_INDEX_WRONG: row(
        _CORRUPTION,
        "a broker does not check it after a clean stop: look-ups by time find wrong offsets, retention"
        " may delete too early or never",
        _INDEXES,
    ),
    FindingKind.TIME_INDEX_INEXACT: row(
        _WARNING,
        "look-ups by time may find another record, retention may delete a little early",
        _INDEXES._replace(after=_INDEXES.after + ", if wanted"),
    ),
    FindingKind.TXN_INDEX_WRONG: row(
        _CORRUPTION,
        "consumers with read_committed get records of aborted transactions, or miss committed records",
        _INDEXES,
    ),
    FindingKind.TXN_INDEX_INEXACT: row(_WARNING, "a broker that starts rebuilds it if it notices", _INDEXES),
    FindingKind.INDEX_ZERO_TAIL: row(
        _WARNING,
        "a broker reads the zeros as entries (KAFKA-10207): look-ups in the segment begin at its start",
        _INDEXES,
    ),
    FindingKind.ENTRIES_BEHIND_TAIL: row(
        _WARNING,
        "follows from the damaged tail: after an unclean stop a broker rebuilds it; after a clean stop the log ends at"
        " the last segment's base offset for readers",
        _RECOVER,
    ),
    FindingKind.END_NOT_SEEN: row(
        _WARNING,
        "after a clean stop a broker uses an earlier end of the log: later records are lost to readers,"
        " and overwritten",
        Step("before the broker starts, ", RECOVER, " rebuilds the indexes"),
    ),
    FindingKind.SNAPSHOT_WRONG: row(
        _CORRUPTION,
        "a snapshot that cannot be read is deleted, and an older one used; a readable snapshot is used as it is:"
        " duplicates or sequence errors",
        _STATE,
    ),
    FindingKind.SNAPSHOT_BEYOND_END: row(
        _WARNING, "a broker that starts deletes it, and replays the log from an older one", _STATE
    ),
    FindingKind.SNAPSHOT_INEXACT: row(_WARNING, "none: a broker can read it", _STATE),
    FindingKind.ENTRIES_NOT_CHECKED: row(_INFO, "none: a broker reads it"),
    FindingKind.SNAPSHOTS_MISSING: row(
        _WARNING,
        "after a clean stop a broker forgets all producers; after an unclean stop it replays the whole log",
        _STATE,
    ),
    FindingKind.EPOCHS_WRONG: row(
        _CORRUPTION,
        "a broker uses it as it is: followers may cut their logs at the wrong place; an unreadable file keeps the log"
        " directory offline",
        _STATE,
    ),
    FindingKind.EPOCHS_MISSING: row(
        _WARNING, "a broker knows no epoch before the next: followers fetch by offset", _STATE
    ),
    # names and leftovers
    FindingKind.ORPHAN_INDEX: row(
        _WARNING,
        _GOES,
        Step("find out where its log is", end="; "),
        Step("", RECOVER, " removes the index and keeps it for undo"),
    ),
    FindingKind.LEFTOVER_CLEANED: row(_WARNING, "", Step("", RECOVER, " does the same, and keeps it for undo")),
    FindingKind.LEFTOVER_SWAP: row(
        _WARNING,
        "",
        Step("", RECOVER, " does the same, and can be undone"),
        Step("For a damaged file without a segment in its place, it prints the command that copies the rest"),
    ),
    FindingKind.LEFTOVER_DELETED: row(_INFO, _GOES),
    FindingKind.LEFTOVER_TEMPORARY: row(_INFO, "none: it is overwritten when it is needed again"),
    FindingKind.BAD_NAME: row(_CORRUPTION, _REFUSES, Step("rename it, before a broker starts: ", MOVE_ASIDE)),
    FindingKind.UNKNOWN_FILE: row(_INFO, "none: a broker does not read it"),
    FindingKind.ODD_FILE: row(
        _WARNING,
        "a broker that opens it fails, or waits for ever",
        Step("find out who made it", end="; "),
        Step("", MOVE_ASIDE, " moves it away", end=", and "),
        Step("", VERIFY, " checks what is missing then"),
    ),
    FindingKind.ODD_ENTRY: row(
        _WARNING,
        "none: a broker does not read it. kafkalog does not change it, but somebody may have planted it",
        Step("find out who made it", end="; "),
        Step("", ("rm", "-r", Word.FILE), " removes it (or only the link, if it is a link)"),
    ),
    FindingKind.MARKED_DIRECTORY: row(_INFO, ""),
    FindingKind.FOREIGN_DIRECTORY: row(
        _WARNING,
        _REFUSES,
        Step("move it out of the log directory, before a broker starts: ", ("mv", "-nT", Word.FILE, Word.FILE_AWAY)),
        at_start=StartAction.DOES_NOT_START,
    ),
    FindingKind.IMPORT_CUT_OFF: row(
        _WARNING,
        "a broker that starts removes the partitions that are not in their places yet: their records are lost then",
        Step("repeat the import before a broker starts: it moves them to their places, and so does any other import"),
    ),
    FindingKind.IMPORT_STAGED: row(
        _INFO,
        "a broker that starts removes it",
        Step("", ("kafkalog", "purge", Word.PATH), " removes it, and so does the next import"),
    ),
    # checkpoints and metadata of a log directory
    FindingKind.RECOVERY_POINT_BEYOND_END: row(
        _WARNING,
        "after an unclean stop a broker checks only the last segment: it assumes that the others are on the disk",
        Step("", RECOVER, " checks all segments and corrects the line"),
    ),
    FindingKind.HIGH_WATERMARK_BEYOND_END: row(
        _WARNING, "a broker that starts lowers it to the end of the log", LOWER_WATERMARK, at_start=StartAction.LOWERS
    ),
    FindingKind.LOG_START_BEYOND_END: row(
        _CORRUPTION,
        "a broker that starts deletes every segment and begins an empty log at the checkpoint's offset",
        Step("if the records were deleted on purpose, nothing has to be done", end="; "),
        Step("else do not start a broker before the line is corrected"),
    ),
    FindingKind.CLEANER_BEYOND_END: row(
        _WARNING, "a cleaner starts again at the log's start", Step("", RECOVER, " removes the line")
    ),
    FindingKind.CHECKPOINTS_DISAGREE: row(
        _WARNING,
        "a broker uses the larger of log start and the other offset",
        Step("", RECOVER, " corrects the line"),
    ),
    FindingKind.CHECKPOINT_DAMAGED: row(
        _WARNING,
        "a broker uses 0 for every partition in the file: it recovers all logs, or forgets all log starts",
        Step("", RECOVER, " rebuilds the file from the lines that can be read"),
        at_start=StartAction.RESETS,
    ),
    FindingKind.CHECKPOINT_MALFORMED: row(
        _CORRUPTION,
        "a broker takes the whole log directory offline when it reads the file, and stops if it has no other",
        Step("", RECOVER, " rebuilds the file from the lines that can be read"),
        at_start=StartAction.TAKES_OFFLINE,
    ),
    FindingKind.META_PROPERTIES: row(
        _CORRUPTION,
        _REFUSES,
        Step("move it aside: ", MOVE_ASIDE),
        *_restore("Restore it"),
        at_start=StartAction.DOES_NOT_START,
    ),
    FindingKind.META_PROPERTIES_MISSING: row(
        _WARNING,
        "a broker treats the directory as new: it does not start before the directory is formatted",
        *_restore("restore the file"),
        at_start=StartAction.DOES_NOT_START,
    ),
    FindingKind.META_PROPERTIES_DIFFER: row(
        _CORRUPTION,
        "a broker does not start with directories of several clusters or brokers, or with one directory id twice",
        Step("the administrator decides which directory is the copy: a broker must have only one of them in log.dirs"),
        at_start=StartAction.DOES_NOT_START,
    ),
    FindingKind.DIRECTORY_ID: row(
        _CORRUPTION,
        "the partitions here have no leader, since the cluster assigns them to another directory id",
        *_restore("restore meta.properties"),
        at_start=StartAction.TAKES_OFFLINE,
    ),
    FindingKind.METADATA_LOG_LOST: row(
        _CORRUPTION,
        f"{SET_ALL_ASIDE}; {NEVER_LED}",
        Step("do not start the node before its metadata log is there again: copy __cluster_metadata-0 from a backup"),
        Step("If other controllers are running, the node fetches it from them, and nothing has to be done"),
    ),
    FindingKind.SHUTDOWN_MARKER: row(
        _WARNING,
        "a broker starts as after a clean stop, but without its epoch: it leaves every in-sync replica set",
        nothing(": a broker removes the file when it starts, and writes a new file when it stops"),
    ),
    FindingKind.MARKER_HELD: row(
        _INFO,
        "it starts as after an unclean stop: it recovers all partitions, and leaves every in-sync replica set",
        Step(
            "",
            ("kafkalog", "undo", Word.PATH, Word.RUN),
            " of the runs that it names restores the marker, with the bytes that they cut off",
        ),
    ),
    FindingKind.MARKERS_DIFFER: row(
        _WARNING,
        "a broker sends no epoch to the controller: it leaves every in-sync replica set; directories without a marker"
        " are recovered",
        nothing(": the broker recovers what it must, and comes back into the in-sync replica sets by itself"),
    ),
    FindingKind.METADATA_FILE: row(
        _CORRUPTION, "a broker takes the log directory offline", _WRITES_ID, at_start=StartAction.TAKES_OFFLINE
    ),
    FindingKind.QUORUM_STATE: row(
        _CORRUPTION,
        "the node does not start: it cannot read its vote and its epoch",
        Step(
            "",
            MOVE_ASIDE,
            " moves the file away: the node takes its epoch from the metadata log, and from the other controllers,"
            " if there are any",
        ),
        Step("A controller that voted in the present epoch could then vote again in it"),
        at_start=StartAction.DOES_NOT_START,
    ),
    FindingKind.METADATA_FILE_MISSING: row(
        _WARNING,
        "a broker in KRaft mode treats it as stray: it renames the directory to -stray and starts an empty partition",
        _WRITES_ID._replace(after=_WRITES_ID.after + ", before a broker starts"),
        at_start=StartAction.SETS_ASIDE,
    ),
    FindingKind.TOPIC_ID_DIFFERS: row(
        _WARNING,
        "a broker treats it as stray: it renames the directory to -stray and starts an empty partition",
        Step("decide before a broker starts which data are right", end=": "),
        *_KEEP_A_COPY,
        at_start=StartAction.SETS_ASIDE,
    ),
    FindingKind.NOT_IN_METADATA: row(
        _WARNING,
        "a broker treats it as stray: it renames the directory to -stray",
        *_KEEP_A_COPY,
        at_start=StartAction.SETS_ASIDE,
    ),
    FindingKind.NOT_A_REPLICA: row(
        _WARNING,
        "this broker is not one of the replicas: it renames the directory to -stray",
        *_KEEP_A_COPY,
        at_start=StartAction.SETS_ASIDE,
    ),
    FindingKind.SAME_TOPIC_ID: row(
        _CORRUPTION,
        "a broker keeps both: one has a name that no topic has, so that its records are never read or deleted",
        Step("find out which directory holds the data, and move the other away"),
    ),
    FindingKind.TWIN_DIRECTORIES: row(
        _CORRUPTION,
        "a broker does not start with a partition in two of its log directories",
        Step("keep the more complete directory (--against compares them), and move the other away"),
        at_start=StartAction.DOES_NOT_START,
    ),
    # replicas
    FindingKind.DIVERGED: row(
        _CORRUPTION,
        "brokers compare leader epochs, not contents: a follower with other batches under the same epoch stays so",
        Step("keep the replica of the leader"),
        Step("If this is the other replica", end=": "),
        *REPLICATE,
    ),
    FindingKind.REPLICA_BEHIND: row(_INFO, "a follower fetches the records that it lacks"),
    FindingKind.MORE_COMPLETE: row(_INFO, "a follower fetches the records that it lacks from the leader"),
    FindingKind.RECORDS_MISSING: row(
        _CORRUPTION,
        "none: consumers pass over the gap without an error, while another replica has the records",
        Step("if the other replica is in sync", end=", "),
        *REPLICATE,
        Step("Else, copy the other replica to its place before a broker starts"),
    ),
    FindingKind.ONLY_ON_ONE_SIDE: row(
        _WARNING,
        "",
        Step("give a directory that holds the partition to --against"),
        Step("", VERIFY, " checks this directory alone"),
    ),
    FindingKind.NOT_COMPARED: row(
        _WARNING,
        "",
        Step("give another directory of the same partition, under any name that no other partition has, to --against"),
        Step("", VERIFY, " checks this directory alone"),
    ),
    FindingKind.NOT_COMPARABLE: row(_INFO, "none: cleaning or deletion went further on one side"),
    # the machine
    FindingKind.NOT_READ: row(
        _WARNING,
        "a broker that cannot read it takes the log directory offline",
        Step(
            "where permission is missing, verify as the user that the broker runs as, or as root: ",
            ("sudo", *VERIFY),
        ),
        Step("After an I/O error, copy the readable batches to ./salvaged on another disk: ", COPY_BATCHES),
    ),
    FindingKind.NOT_PERMITTED: row(
        _WARNING,
        "it does not start, or takes the log directory offline, when it opens the file",
        Step("", ("sudo", "chown", Word.USER, Word.FILE), end=" and "),
        Step("", ("sudo", "chmod", "u+rw", Word.FILE), " give the file to the user of the log directory"),
    ),
    FindingKind.MOUNTED_READ_ONLY: row(
        _INFO,
        "a broker does not start",
        Step("", ("sudo", "mount", "-o", "remount,rw", Word.PATH), " permits it to write, unless the disk fails"),
        at_start=StartAction.DOES_NOT_START,
    ),
    FindingKind.LOCKED: row(
        _INFO,
        "a broker is running on it",
        Step("the findings may change while it runs"),
        Step("Repeat later: ", VERIFY),
    ),
}


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


LOG_DIAGNOSES = {
    # the chain of batches
    FindingKind.TORN_TAIL: row(
        _WARNING,
        "after an unclean stop a broker cuts it off; after a clean stop it stays, and the log may end at the last"
        " segment's base offset for readers",
        _RECOVER,
    ),
    FindingKind.ZERO_TAIL: row(
        _WARNING, "after an unclean stop a broker cuts it off; after a clean stop it does not start", _RECOVER
    ),
    FindingKind.BAD_TAIL_BATCH: row(
        _WARNING,
        "after an unclean stop a broker cuts it off; after a clean stop it keeps it, and consumers fail at it",
        _RECOVER,
    ),
    FindingKind.DAMAGED_RANGE: row(_CORRUPTION, _CUTS_AT_IT, SALVAGE),
    FindingKind.ZEROED_RANGE: row(
        _CORRUPTION,
        "after an unclean stop a broker cuts the log there and sets all later segments aside; where it only reads the"
        " segment at start, it does not start",
        SALVAGE,
    ),
    FindingKind.CRC_MISMATCH: row(_CORRUPTION, _CUTS_AT_IT, SALVAGE),
    FindingKind.UNREADABLE_RANGE: row(
        _CORRUPTION,
        "a broker takes the whole log directory offline when it reads there",
        Step("use another disk from now on", end="; "),
        SALVAGE,
    ),
    FindingKind.BATCH_TOO_LARGE: row(
        _CORRUPTION,
        "a broker reads a batch of any size that lies within the file",
        Step("if the size is right, verify with a larger limit: ", (*VERIFY, "--max-batch-bytes", Word.BATCH_BYTES)),
        Step("Else", end=", "),
        SALVAGE,
    ),
    FindingKind.UNKNOWN_MAGIC: row(
        _CORRUPTION, "a broker treats it as a batch of the newest format; consumers fail at it", SALVAGE
    ),
    FindingKind.OFFSETS_NOT_ASCENDING: row(
        _CORRUPTION,
        "consumers miss records or read them twice. A broker notices it only where an index entry would go back: it"
        " then empties the segment, or does not start",
        SALVAGE,
    ),
    FindingKind.OFFSET_OUTSIDE_SEGMENT: row(
        _CORRUPTION, "a broker that recovers the segment splits it, or does not start", SALVAGE
    ),
    FindingKind.OFFSET_GAP: row(_INFO, "none: compaction leaves gaps, and consumers pass over them"),
    FindingKind.MISSING_OFFSETS: row(
        _WARNING,
        "none: consumers pass over the gap without an error. The records are lost, unless the topic was once compacted:"
        " an earlier compaction may explain the gap",
        Step("compare with another replica or a backup (--against)", end="; "),
        Step(
            "if the topic is or was compacted, that explains the gap: ",
            (*VERIFY, "--config", "cleanup.policy=compact"),
        ),
    ),
    FindingKind.EPOCH_GOES_BACK: row(
        _CORRUPTION,
        "a broker does not notice; replicas that compare epochs may cut their logs at the wrong place",
        EPOCHS_STAY,
    ),
    FindingKind.EMPTY_SEGMENT: row(_INFO, "none: it is kept"),
    FindingKind.SEGMENT_TOO_LARGE: row(_CORRUPTION, "a broker does not open a segment of 2 GiB or more", SALVAGE),
    # batches and records
    FindingKind.FUTURE_TIMESTAMP: row(
        _WARNING,
        "retention by time keeps the segment until that time is past; look-ups by time find it too early",
        _READABLE,
        Step("Correct the clock of the producer"),
        Step("retention.bytes removes the segment, retention.ms does not"),
    ),
    FindingKind.TIMESTAMP_UNIT: row(
        _WARNING,
        "retention by time deletes the segment at once (seconds) or never (microseconds, nanoseconds)",
        _READABLE,
        Step("Have the producer send milliseconds", end="; "),
        Step("until these records are removed, set retention.ms=-1 and retention.bytes for the topic"),
    ),
    FindingKind.NEGATIVE_TIMESTAMP: row(
        _WARNING,
        "look-ups by time do not find it; retention uses the modification time of the file",
        _READABLE,
        Step("Have the producer send milliseconds since 1970"),
    ),
    FindingKind.MAX_TIMESTAMP: row(
        _WARNING, "look-ups by time and retention use the header, not the records", _READABLE
    ),
    FindingKind.RECORD_COUNT: row(_CORRUPTION, _CONSUMERS_FAIL, *_OF_CONTENTS),
    FindingKind.PRODUCER_FIELDS: row(
        _WARNING,
        "a broker does not check these fields in its log, and serves the batch. If they were damaged, it may take the"
        " producer's next batch for a duplicate, or show records of an aborted transaction",
        Step("no client of Kafka writes such a batch: if another replica is in sync", end=", "),
        *REPLICATE,
    ),
    FindingKind.INVALID_RECORD: row(_CORRUPTION, _CONSUMERS_FAIL, *_OF_CONTENTS),
    FindingKind.DECOMPRESSION: row(
        _CORRUPTION,
        "a broker does not decompress at start: it serves it, and consumers and the cleaner fail at it",
        *_OF_CONTENTS,
    ),
    FindingKind.UNKNOWN_CODEC: row(_CORRUPTION, _CONSUMERS_FAIL, *_OF_CONTENTS),
    FindingKind.OUTPUT_TOO_LARGE: row(
        _CORRUPTION,
        "a broker that cleans the log, and consumers, need that much memory",
        Step(
            "if the size may be right, verify with the largest limits, for which up to 2 GiB of memory are needed: ",
            (*VERIFY, "--level", "deep", "--max-output-bytes", "2147483647", "--max-ratio", "2147483647"),
        ),
        Step("A batch that is over these limits too was made to do harm", end="; "),
        Step("the topic's retention removes it"),
    ),
    FindingKind.INNER_MESSAGE: row(_CORRUPTION, _CONSUMERS_FAIL, *_OF_CONTENTS),
    FindingKind.PACKED_VALUE: row(
        _WARNING,
        "a broker serves it as one record with the compressed bytes as its value: consumers do not get the messages"
        " inside",
        Step("ask the owner of the producers: if values are meant to be such sets, nothing has to be done"),
        Step("Else, if another replica is in sync", end=", "),
        *REPLICATE,
    ),
    FindingKind.NEGATIVE_LENGTH: row(
        _WARNING,
        "a broker serves it, and Java's consumer takes the key, value or header as null; other clients may fail",
        Step("no client of Kafka writes such a length: if another replica is in sync", end=", "),
        *REPLICATE,
    ),
    FindingKind.RECORD_OFFSET: row(
        _CORRUPTION,
        "a broker does not check the offsets of records; consumers get them as they are, out of order or twice",
        *_OF_CONTENTS,
    ),
    FindingKind.CONTROL_RECORD: row(
        _CORRUPTION,
        "a broker that rebuilds the producers' state fails at it, or treats the transaction as still open",
        SALVAGE,
    ),
}

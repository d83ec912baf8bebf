"""The lines of a broker's log that send people to its disk: the meaning of each, and the commands that help.

`generate_broker_messages.py` writes docs/broker-messages/ from this table. A test looks up each text in Kafka's own
classes, and runs each command on a real log directory.
"""

from __future__ import annotations

from dataclasses import dataclass

LOG_DIR = "/var/lib/kafka/data"
PARTITION = f"{LOG_DIR}/orders-0"
METADATA_DIR = "/var/lib/kafka/metadata"
BROKER_CONFIG = "--broker-config /etc/kafka/server.properties"


@dataclass(frozen=True)
class Text:
    """A line of a broker's log as Kafka's source has it, `{}` for each value.

    `where`: the simple name of its class; two where the class of Kafka 4.3 is not that of 4.2.
    """

    text: str
    where: str


@dataclass(frozen=True)
class Step:
    """A command to run, and what it shows or does."""

    command: str
    why: str


@dataclass(frozen=True)
class BrokerMessage:
    """A page: the texts that lead to it, their meaning, what is at stake, and the commands, the safest first."""

    slug: str
    texts: tuple[Text, ...]
    meaning: str
    at_stake: str
    steps: tuple[Step, ...]
    findings: tuple[str, ...] = ()


OPERATING_SYSTEM = "the operating system"

_LOOK = Step(f"kafkalog verify {LOG_DIR}", "lists every damaged file, with a next step for each. It changes nothing")
_LOOK_PARTITION = Step(f"kafkalog verify {PARTITION}", "says what is wrong in this partition. It changes nothing")
_TRY = Step(f"kafkalog recover {PARTITION} --dry-run", "prints what a repair would do. It changes nothing")
_RECOVER = Step(
    f"kafkalog recover {PARTITION}",
    "repairs the partition while the broker is stopped, and keeps whatever it cuts off: `kafkalog undo` puts it back",
)
_INDEXES = Step(
    f"kafkalog recover {PARTITION} --indexes-only",
    "rebuilds the indexes from the log while the broker is stopped, and leaves the log as it is",
)
_SALVAGE = Step(
    f"kafkalog recover {PARTITION} --salvage ./salvaged",
    "copies every readable batch to ./salvaged, and leaves the damaged partition as it is",
)
_LEVEL = Step(f"kafkalog verify {PARTITION} --level deep", "decompresses every batch and reads every record")
_CHECKPOINTS = Step(
    f"kafkalog dump-index {LOG_DIR}/recovery-point-offset-checkpoint {LOG_DIR}/log-start-offset-checkpoint "
    f"{LOG_DIR}/replication-offset-checkpoint",
    "prints the lines of the checkpoints, and names each malformed line",
)
_AS_BROKER = Step(
    f"kafkalog recover {LOG_DIR} --like-broker --dry-run",
    "prints for each partition what the broker will do at its next start. It changes nothing",
)
_LIST = Step(f"kafkalog ls {LOG_DIR}", "lists partitions, segments, offsets, checkpoints and leftovers")
_FILLS = Step(f"kafkalog ls {LOG_DIR} --topics --sort size", "shows which topics fill the disk")
_META = Step(f"kafkalog dump-index {LOG_DIR}/meta.properties", "prints the identity that this directory has")
_TOPIC_ID = Step(
    f"kafkalog recover {PARTITION} --metadata {METADATA_DIR}",
    "writes partition.metadata with the topic's id of a metadata log: metadata.log.dir of a controller, or its copy",
)


def _one(text: str, where: str) -> tuple[Text, ...]:
    return (Text(text, where),)


AT_START = (
    BrokerMessage(
        "lock-file-held",
        (
            Text(
                "Failed to acquire lock on file .lock in {}. A Kafka instance in another process or thread is using "
                "this directory.",
                "LogManager",
            ),
        ),
        "Another process holds the lock of this log directory. It is a broker that has not ended yet, a second broker "
        "with the same log.dirs, or a kafkalog command that changes files. The file .lock itself is always there. Only "
        "the lock on it counts, and the kernel drops that lock when its process ends: removing the file does not help.",
        "Nothing. Two processes that write into one log directory would destroy it, and this lock prevents that.",
        (
            Step(f"fuser -v {LOG_DIR}/.lock", "names the process"),
            Step(f"kafkalog verify {LOG_DIR}", "reads beside a running broker without taking the lock"),
        ),
    ),
    BrokerMessage(
        "no-meta-properties",
        (
            Text(
                "No `meta.properties` found in {} (have you run `kafka-storage.sh` to format the directory?)",
                "KafkaRaftServer$",
            ),
            Text("No readable meta.properties files found.", "MetaPropertiesEnsemble"),
        ),
        "The broker found no meta.properties in its log directories. On a broker that has run before, the usual cause "
        "is a disk that is not mounted: the broker then looks at the empty mount point.",
        "Do not format the directory before you know that the disk is mounted. A formatted directory gets a new "
        "identity, and the broker starts with no data.",
        (
            Step(f"findmnt --target {LOG_DIR}", "shows which file system the path lies on"),
            _LIST,
            Step(
                f"kafkalog verify {LOG_DIR}",
                "says whether the logs below the directory are whole, with or without meta.properties",
            ),
        ),
        ("meta-properties-missing",),
    ),
    BrokerMessage(
        "invalid-cluster-id",
        _one("Invalid cluster.id in: {}. Expected {}, but read {}", "MetaPropertiesEnsemble"),
        "The log directories of this broker carry the cluster ids of two clusters. A disk of another cluster was "
        "mounted, or one directory was formatted again with another cluster id.",
        "The partitions below the wrong directory belong to another cluster. Do not edit the cluster id by hand: the "
        "broker would serve them under topics of the same names.",
        (
            Step(
                f"kafkalog dump-index {LOG_DIR}/meta.properties",
                "prints cluster id, node id and directory id of a directory in log.dirs",
            ),
            _LIST,
        ),
        ("meta-properties-differ",),
    ),
    BrokerMessage(
        "stored-node-id",
        _one(
            "Stored node id {} doesn't match previous node id {} in {}. If you moved your data, make sure your "
            "configured node id matches.",
            "MetaPropertiesEnsemble",
        ),
        "The directory was written by a broker with another node id. Usually disks were swapped between brokers, or "
        "node.id in server.properties was changed.",
        "If you remove the data, as the rest of the line suggests, its replicas are lost on this broker.",
        (_META, _LIST),
        ("meta-properties-differ",),
    ),
    BrokerMessage(
        "duplicate-directory-id",
        _one("Duplicate directory ID {} found. It was the ID of {}, but also of {}", "MetaPropertiesEnsemble"),
        "Two log directories of this broker have the same directory.id. One of them is a copy of the other, with its "
        "meta.properties.",
        "The partitions may lie in both directories, and one copy is older. Find the newer copy before you change "
        "either directory.",
        (
            _META,
            Step(
                f"kafkalog verify {LOG_DIR} --against /var/lib/kafka/copy",
                "compares the partitions of both directories batch by batch, and says which copy has more",
            ),
        ),
    ),
    BrokerMessage(
        "unexpected-metadata-location",
        _one(
            "Found unexpected metadata location in data directory `{}` (the configured metadata directory is {}).",
            "KafkaRaftServer$",
        ),
        "The directory __cluster_metadata-0 lies in a log directory that is not metadata.log.dir. The setting was "
        "changed, or the order of log.dirs was: without metadata.log.dir, the first directory holds the metadata log.",
        "A controller that starts with an empty metadata log has lost its vote's history. Set metadata.log.dir to the "
        "directory that holds the log; do not remove the log.",
        (
            Step(f"kafkalog ls {LOG_DIR}", "shows where __cluster_metadata-0 lies and its last offset"),
            Step(
                f"kafkalog verify {LOG_DIR}",
                "checks the metadata log and its snapshots with the other partitions",
            ),
        ),
    ),
    BrokerMessage(
        "log-directory-not-readable",
        (
            Text("{} is not a readable log directory.", "LogManager"),
            Text("Failed to create or validate data directory {}", "LogManager"),
            Text(
                "Shutdown broker because none of the specified log dirs from {} can be created or validated",
                "LogManager",
            ),
        ),
        "The broker cannot read the path: it is a file, its permissions exclude the broker's user, or the file system "
        "answers with errors. Tools that ran as root leave files that belong to root, with the same effect.",
        "Nothing is lost on disk by this message.",
        (
            Step(f"ls -ld {LOG_DIR}", "shows owner and permissions"),
            Step(f"kafkalog ls {LOG_DIR}", "lists what can be read, and names each entry that cannot"),
        ),
    ),
    BrokerMessage(
        "error-loading-log-dir",
        (
            Text("Error while loading log dir {}", "LogManager"),
            Text("There was an error in one of the threads during logs loading: {}", "LogManager"),
        ),
        "Loading failed in one partition. An I/O error takes the log directory offline, and the broker goes on with "
        "its others. Every other error ends the broker. The lines below this line name the cause.",
        "The broker does not start until the cause is mended, so every partition of the directory is unavailable.",
        (_LOOK, _AS_BROKER),
    ),
    BrokerMessage(
        "duplicate-log-directories",
        (
            Text(
                "Duplicate log directories for {} are found in both {} and {}. It is likely because log directory "
                "failure happened while broker was replacing current replica with future replica. Recover broker from "
                "this failure by manually deleting one of the two directories for this partition.",
                "LogManager",
            ),
            Text("Duplicate log directories found: {}, {}", "LogManager"),
        ),
        "The same partition lies in two log directories of this broker. A move between disks "
        "(kafka-reassign-partitions with log directories) was interrupted, or a directory was copied by hand.",
        "The broker asks you to delete a directory. The two copies may differ: compare them first, and move the worse "
        "copy away in place of deleting it.",
        (
            Step(
                f"kafkalog verify {PARTITION} --against /var/lib/kafka/copy/orders-0",
                "compares both copies batch by batch, and says which has more",
            ),
            Step(f"kafkalog ls {PARTITION} /var/lib/kafka/copy/orders-0", "shows first and last offset of both copies"),
        ),
        ("twin-directories",),
    ),
    BrokerMessage(
        "no-clean-shutdown",
        _one("Recovering {} logs from {} since no clean shutdown file was found", "LogManager"),
        "The broker did not stop cleanly: a kill, a crash, a power cut. It now reads every segment from the recovery "
        "point on, checks each checksum and rebuilds indexes. This takes minutes on large disks.",
        "Incomplete batches at the end of a log are cut off. That is normal. At the first damaged batch in the middle "
        "of a log, the broker cuts the log there and removes all later segments.",
        (
            Step(
                f"kafkalog recover {LOG_DIR} --like-broker --dry-run",
                "says before the start what the broker will cut off, partition by partition",
            ),
            Step(
                f"kafkalog recover {LOG_DIR}",
                "repairs before the start, keeps whatever it cuts off, and refuses where a broker would remove "
                "valid batches",
            ),
        ),
        ("torn-tail", "bad-tail-batch", "zero-tail"),
    ),
    BrokerMessage(
        "clean-shutdown-found",
        _one("Skipping recovery of {} logs from {} since clean shutdown file was found", "LogManager"),
        "The broker found .kafka_cleanshutdown and trusts the logs as they are. It does not read their batches. "
        "Somebody who changes files by hand between stop and start, or a disk that lies, is not noticed here.",
        "Damage stays in the log until a consumer or a follower reads it.",
        (_LOOK,),
    ),
    BrokerMessage(
        "stray-partition",
        (
            Text("Log in {} marked stray and renamed to {}", "LogManager"),
            Text("Loaded stray log: {}", "LogManager"),
            Text("Found stray log dir {}: the topicId {} does not exist in the metadata image.", "LogManager"),
            Text(
                "Found stray log dir {}: the current replica assignment {} does not contain the local brokerId {}.",
                "LogManager",
            ),
            Text("The topicId does not exist in {}, treat it as a stray log.", "LogManager, BrokerMetadataPublisher"),
        ),
        "The cluster's metadata does not give this partition, with this topic id, to this broker. The broker renamed "
        "the directory to NAME.UUID-stray and does not serve it. That happens after a topic was deleted and created "
        "again while the broker was down, and after the metadata log was lost or restored from an old backup.",
        "The directory stays on the disk until you remove it. If the metadata is wrong, it may hold the last copy.",
        (
            Step(f"kafkalog ls {LOG_DIR}", "lists -stray directories with their offsets"),
            Step(f"kafkalog verify {LOG_DIR}", "explains each, and names the way back"),
        ),
        ("marked-directory", "topic-id-differs"),
    ),
    BrokerMessage(
        "no-topic-id",
        _one("The log dir {} does not have a topic ID, which is not allowed when running in KRaft mode.", "LogManager"),
        "The directory has no partition.metadata. It was written by a broker before 2.8 and never upgraded, or the "
        "file was not copied with the others.",
        "The records are whole. The broker refuses the directory only because it does not know the topic.",
        (
            _LOOK_PARTITION,
            _TOPIC_ID,
        ),
        ("partition-metadata-missing",),
    ),
    BrokerMessage(
        "inconsistent-topic-id",
        (
            Text(
                "Tried to assign topic ID {} to log for topic partition {},but log already contained topic ID {}",
                "LogManager",
            ),
            Text("Tried to record topic ID {} to file but had already recorded {}", "PartitionMetadataFile"),
        ),
        "The log on disk has the id of another topic with the same name: the topic was deleted and created again, or "
        "the directory comes from another cluster.",
        "The records belong to the former topic. Deleting partition.metadata lets the broker serve them as the new "
        "topic's, which is hardly ever right.",
        (
            Step(f"kafkalog dump-index {PARTITION}/partition.metadata", "prints the id on disk"),
            Step(f"kafkalog verify {LOG_DIR}", "compares every id with the metadata log"),
        ),
        ("topic-id-differs",),
    ),
    BrokerMessage(
        "partition-metadata-unreadable",
        (
            Text("Error while reading partition metadata file {}", "PartitionMetadataFile"),
            Text("Invalid topic ID in partition metadata file ({})", "PartitionMetadataReadBuffer"),
            Text("Unrecognized version of partition metadata file ({}): {}", "PartitionMetadataReadBuffer"),
            Text("Malformed line in partition metadata file [{}]: {}", "PartitionMetadataReadBuffer"),
        ),
        "The file partition.metadata is cut short, empty or not text. A full disk or a power cut leaves such files.",
        "The broker takes the whole log directory offline for this small file. The records are not touched.",
        (_LOOK_PARTITION, _TOPIC_ID),
        ("partition-metadata-damaged",),
    ),
)

SEGMENTS = (
    BrokerMessage(
        "corruption-found-in-segment",
        _one("Corruption found in segment {}, truncating to offset {}", "LogLoader"),
        "While it recovers after an unclean stop, the broker found a batch that is incomplete or has a wrong checksum. "
        "It cuts the segment there, and it deletes all later segments of the partition, with every valid batch in "
        "them.",
        "If the bad batch is the last of the log, only unacknowledged or unflushed records are lost. If valid batches "
        "follow it, they are lost on this replica. A follower fetches them again from the leader; the last in-sync "
        "replica cannot.",
        (
            Step(
                f"kafkalog verify {PARTITION}",
                "says, before the broker starts, whether valid batches follow the damage",
            ),
            _SALVAGE,
            _RECOVER,
        ),
        ("torn-tail", "damaged-range", "crc-mismatch"),
    ),
    BrokerMessage(
        "found-invalid-messages",
        _one("Found invalid messages in log segment {} at byte offset {}.", "LogSegment"),
        "Recovery of a segment stopped at this byte: the batch there has a wrong checksum or an impossible length. "
        "The broker truncates the log at this place next.",
        "See how many valid batches follow before you let the broker start.",
        (
            _LOOK_PARTITION,
            Step(
                f"kafkalog dump-log {PARTITION} --resync --from-offset 0",
                "prints the batches before and after the damage",
            ),
            _SALVAGE,
        ),
        ("crc-mismatch", "damaged-range"),
    ),
    BrokerMessage(
        "truncated-invalid-bytes",
        _one("Truncated {} invalid bytes at the end of segment {} during recovery", "LogSegment"),
        "The broker cut an incomplete batch off the end of the active segment. After a kill or a power cut, this is "
        "normal. The broker says it at level DEBUG.",
        "Only records that were never written completely. The broker does not keep the bytes.",
        (_LOOK_PARTITION,),
        ("torn-tail",),
    ),
    BrokerMessage(
        "found-invalid-offset",
        _one(
            "Found invalid offset during recovery. Deleting the corrupt segment and creating an empty one with "
            "starting offset {}",
            "LogLoader",
        ),
        "A segment holds an offset that goes back, or that does not fit its index. The broker empties the whole "
        "segment and deletes all later segments.",
        "All records from the segment's base offset on. Salvage them before the broker starts.",
        (_LOOK_PARTITION, _SALVAGE),
        ("offsets-not-ascending", "offset-outside-segment"),
    ),
    BrokerMessage(
        "log-end-before-log-start",
        _one(
            "Deleting all segments because logEndOffset ({}) is smaller than logStartOffset {}. This could happen if "
            "segment files were deleted from the file system.",
            "LogLoader",
        ),
        "log-start-offset-checkpoint says that the log begins after its last record. Someone deleted segment files, "
        "or an older copy of the partition was put beside newer checkpoints. The broker deletes the whole log.",
        "Every record of the partition on this replica.",
        (
            _CHECKPOINTS,
            _LOOK_PARTITION,
            Step(
                f"kafkalog recover {PARTITION} --dry-run",
                "says what happens to the log and to the line of the checkpoint",
            ),
        ),
        ("log-start-beyond-end",),
    ),
    BrokerMessage(
        "deleting-segments-log-recovery",
        _one("Deleting segments as part of log recovery: {}", "LogLoader"),
        "The broker removes segments that lie after a damaged segment. They get the suffix .deleted, and the broker "
        "removes them after file.delete.delay.ms (one minute by default).",
        "All records in these segments. While the .deleted files exist, they can be saved: stop the broker at once "
        "and copy them away.",
        (
            Step(f"kafkalog ls {PARTITION}", "lists .deleted files that are still there"),
            _LOOK_PARTITION,
        ),
    ),
    BrokerMessage(
        "segment-overflow",
        (
            Text("Detected offset overflow at offset {} in segment {}", "LogSegmentOffsetOverflowException"),
            Text("Caught segment overflow error: {}. Split segment and retry.", "LogLoader"),
            Text("Caught segment overflow error during cleaning: {}", "Cleaner"),
        ),
        "A segment spans more than 2,147,483,647 offsets, more than an index entry can hold. Cleaners before 1.0 left "
        "such segments (KAFKA-6264). The broker splits the segment by itself.",
        "Nothing is lost by the split. It needs room for a copy of the segment.",
        (_LOOK_PARTITION, Step(f"kafkalog recover {PARTITION} --dry-run", "shows into which segments it is split")),
    ),
    BrokerMessage(
        "interrupted-swap",
        (
            Text(
                "Found log file {} from interrupted swap operation, which is recoverable from {} files by renaming.",
                "LogLoader",
            ),
            Text("Deleting invalid swap file {} minCleanedFileOffset: {}", "LogLoader"),
            Text("Deleting stray .clean file {}", "LogLoader"),
            Text("Deleting stray temporary file {}", "LogLoader"),
            Text("Recovering file {} by renaming from {} files.", "LogLoader"),
        ),
        "The broker stopped while the cleaner replaced segments, or while it split a segment. The files with .cleaned "
        "and .swap are the traces. The broker completes the replacement, or undoes it.",
        "Nothing: both the old and the new segments hold what a consumer has to get.",
        (_LOOK_PARTITION, _AS_BROKER),
        ("leftover-swap", "leftover-cleaned"),
    ),
    BrokerMessage(
        "rolled-segment-exists",
        (
            Text("Newly rolled segment file {} already exists; deleting it first", "LocalLog"),
            Text(
                "Trying to roll a new log segment for topic partition {} with start offset {} =max(provided offset = "
                "{}, LEO = {}) while it already exists. Existing segment is {}.",
                "LocalLog",
            ),
        ),
        "The broker wants to begin a segment, and a file with its name is there already. Somebody copied it there by "
        "hand, or restored a backup over a live directory.",
        "The broker deletes the file that it finds.",
        (_LOOK_PARTITION, _LIST),
    ),
    BrokerMessage(
        "record-is-corrupt",
        (
            Text("Record is corrupt (stored crc = {}) in topic partition {}.", "UnifiedLog"),
            Text("Found invalid messages during fetch for partition {} offset {}", "AbstractFetcherThread"),
        ),
        "A follower got a batch with a wrong checksum from the leader. Either the leader's disk returns damaged bytes, "
        "or the network or memory between them changed them. The follower retries and stays out of the in-sync "
        "replicas.",
        "The leader serves the damaged batch to consumers, too. If a follower is whole, let it become the leader "
        "before the leader's copy is repaired.",
        (
            Step(f"kafkalog verify {PARTITION}", "shows, on the leader's disk, whether the batch is damaged there"),
            Step(
                f"kafkalog verify {PARTITION} --against /var/lib/kafka/copy/orders-0",
                "compares the replicas batch by batch",
            ),
        ),
        ("crc-mismatch",),
    ),
    BrokerMessage(
        "offset-out-of-range",
        (
            Text(
                "Received request for offset {} for partition {}, but we only have log segments starting from offset: "
                "{}.",
                "UnifiedLog",
            ),
            Text("Received request for offset {} for partition {}, but we only have log segments upto {}.", "LocalLog"),
        ),
        "A consumer asked for an offset that the log does not have: retention removed it, the log was truncated, or "
        "the group's committed offset comes from another cluster.",
        "The consumer goes on at auto.offset.reset, so it may skip records or read everything again.",
        (
            Step(f"kafkalog ls {PARTITION}", "shows first and last offset"),
            Step(f"kafkalog lookup-offset {PARTITION} 0", "finds the first record at or after an offset"),
        ),
    ),
)

INDEXES = (
    BrokerMessage(
        "corrupted-index-file",
        (
            Text(
                "Found a corrupted index file corresponding to log file {} due to {}, recovering segment and "
                "rebuilding index files...",
                "LogLoader",
            ),
            Text(
                "Corrupt index found, index file {} has non-zero size but the last offset is {} which is less than "
                "the base offset {}",
                "OffsetIndex",
            ),
            Text(
                "Index file {} is corrupt, found {} bytes which is neither positive nor a multiple of 8", "OffsetIndex"
            ),
        ),
        "An offset index fails the broker's sanity check. The broker reads the whole segment and rebuilds its "
        "indexes. After an unclean stop this is normal: index files are preallocated with zeros.",
        "Nothing by itself. But to rebuild an index, the broker recovers the segment: it cuts the segment at the "
        "first damaged batch. Check the log before the start.",
        (_LOOK_PARTITION, _INDEXES),
        ("offset-index-wrong",),
    ),
    BrokerMessage(
        "missing-offset-index",
        _one(
            "Could not find offset index file corresponding to log file {}, recovering segment and rebuilding index "
            "files...",
            "LogLoader",
        ),
        "A segment has no .index file. The copy of the directory left it out, or someone removed it to have it "
        "rebuilt.",
        "Nothing by itself; the broker reads the whole segment, which takes time, and cuts it at the first damaged "
        "batch.",
        (_LOOK_PARTITION, _INDEXES),
        ("offset-index-missing",),
    ),
    BrokerMessage(
        "orphaned-index-file",
        _one("Found an orphaned index file {}, with no corresponding log file.", "LogLoader"),
        "An index lies there without its .log file. The broker removes the index. If the .log file was deleted by "
        "accident, its records are missing.",
        "The index alone holds no records. Find out where the segment went before the start.",
        (_LOOK_PARTITION, Step(f"kafkalog ls {PARTITION}", "shows the gap between the segments that are there")),
        ("orphan-index", "missing-offsets"),
    ),
    BrokerMessage(
        "corrupt-time-index",
        (
            Text(
                "Corrupt time index found, time index file ({}) has non-zero size but the last timestamp is {} which "
                "is less than the first timestamp {}",
                "TimeIndex",
            ),
            Text(
                "Corrupt time index found, time index file ({}) has non-zero size but the last offset is {} which is "
                "less than the first offset {}",
                "TimeIndex",
            ),
            Text(
                "Time index file {} is corrupt, found {} bytes which is neither positive nor a multiple of 12",
                "TimeIndex",
            ),
        ),
        "A .timeindex file fails the broker's sanity check. The broker recovers the segment and rebuilds its indexes.",
        "Until then, look-ups by time and retention by time may go wrong. The records are not touched.",
        (_LOOK_PARTITION, _INDEXES),
        ("time-index-wrong",),
    ),
    BrokerMessage(
        "index-append-refused",
        (
            Text(
                "Attempt to append an offset {} to position {} no larger than the last offset appended ({}) to {}",
                "OffsetIndex",
            ),
            Text("Attempt to append to a full index (size = {}).", "OffsetIndex"),
        ),
        "The broker wants to add an entry to an index whose last entry is already at or after it. The index holds "
        "entries of records that the log does not have, or the log goes back.",
        "The append fails, and so do all later appends to this partition, until the index is rebuilt.",
        (_LOOK_PARTITION, _INDEXES),
        ("offset-index-wrong", "offsets-not-ascending"),
    ),
    BrokerMessage(
        "corrupt-transaction-index",
        (
            Text("Last offset of aborted transaction {} in index {} is less than start offset {}", "TransactionIndex"),
            Text(
                "Unexpected aborted transaction version {} in transaction index {}, current version is 0",
                "TransactionIndex$1",
            ),
        ),
        "A .txnindex file holds an entry that cannot be true. The broker rebuilds it when it recovers the segment.",
        "With a wrong transaction index, consumers with read_committed may get records of aborted transactions.",
        (_LOOK_PARTITION, _INDEXES),
        ("txn-index-wrong",),
    ),
    BrokerMessage(
        "corrupt-producer-snapshot",
        (
            Text("Failed to load producer snapshot from '{}': {}", "ProducerStateManager"),
            Text(
                "Snapshot is corrupt (CRC is no longer valid). Stored crc: {}. Computed crc: {}",
                "ProducerStateManager",
            ),
            Text("Snapshot failed schema validation: {}", "ProducerStateManager"),
            Text("Snapshot contained an unknown file version {}", "ProducerStateManager"),
        ),
        "A .snapshot file of producer state is damaged. The broker deletes it, takes an older one, or reads the log "
        "from its start to learn which producers wrote.",
        "No record. If older parts of the log are gone already, the broker forgets producers of those parts: a "
        "producer that retries may write a duplicate.",
        (_LOOK_PARTITION, _INDEXES),
        ("producer-snapshot-wrong",),
    ),
)

CHECKPOINTS = (
    BrokerMessage(
        "recovery-point-checkpoint",
        _one(
            "Error occurred while reading recovery-point-offset-checkpoint file of directory {}, resetting the "
            "recovery checkpoint to 0",
            "LogManager",
        ),
        "The broker cannot read recovery-point-offset-checkpoint. In spite of its last words, an unreadable checkpoint "
        "takes the whole log directory offline.",
        "No record. All partitions of the directory are unavailable until the file is mended.",
        (_CHECKPOINTS, _TRY, Step(f"kafkalog recover {LOG_DIR}", "rebuilds the lines from the logs")),
        ("checkpoint-malformed",),
    ),
    BrokerMessage(
        "log-start-checkpoint",
        _one(
            "Error occurred while reading log-start-offset-checkpoint file of directory {}, resetting to the base "
            "offset of the first segment",
            "LogManager",
        ),
        "The broker cannot read log-start-offset-checkpoint, and the log directory goes offline.",
        "Without its line, records that kafka-delete-records removed from the front of a log are visible again up to "
        "the segment's start.",
        (_CHECKPOINTS, _TRY, Step(f"kafkalog recover {LOG_DIR}", "rebuilds the lines that the logs can prove")),
        ("checkpoint-malformed",),
    ),
    BrokerMessage(
        "malformed-checkpoint",
        (
            Text("Malformed line in checkpoint file [{}]: {}", "CheckpointFile$CheckpointReadBuffer"),
            Text(
                "Expected [{}] entries in checkpoint file [{}], but found only [{}]",
                "CheckpointFile$CheckpointReadBuffer",
            ),
            Text(
                "Unrecognised version:{}, expected version: {} in checkpoint file at: {}",
                "CheckpointFile$CheckpointReadBuffer",
            ),
            Text("Error while reading checkpoint file {}", "CheckpointFileWithFailureHandler"),
        ),
        "A checkpoint of a log directory, or leader-epoch-checkpoint of a partition, is cut short or was edited by "
        "hand. A full disk and a power cut leave such files.",
        "The log directory goes offline for one damaged text file. The records are not touched.",
        (_CHECKPOINTS, _LOOK, Step(f"kafkalog recover {LOG_DIR}", "rebuilds damaged checkpoints from the logs")),
        ("checkpoint-malformed", "leader-epochs-wrong"),
    ),
    BrokerMessage(
        "checkpoint-write-failed",
        (
            Text("Error while writing to checkpoint file {}", "CheckpointFileWithFailureHandler"),
            Text("Disk error while writing recovery offsets checkpoint in directory {}: {}", "LogManager"),
            Text("Disk error while writing log start offsets checkpoint in directory {}: {}", "LogManager"),
        ),
        "The disk refused a small write: it is full, it was remounted read-only, or it fails. The broker takes the "
        "directory offline.",
        "Unflushed records of every partition of the directory, if the machine loses power now.",
        (_FILLS, _LOOK),
    ),
)

DISK = (
    BrokerMessage(
        "no-space-left-on-device",
        (
            Text("No space left on device", OPERATING_SYSTEM),
            Text("Error while appending records to {} in dir {}", "UnifiedLog"),
        ),
        "The disk is full. The broker takes the log directory offline and stops serving its partitions; with one "
        "directory, it ends. It will not start on a full disk, as loading needs room, too.",
        "Do not delete segment files by hand: an index without its log, or a gap in the middle, is worse than a full "
        "disk. And .log files of compacted topics hold the newest value of each key.",
        (
            _FILLS,
            Step(f"kafkalog ls {LOG_DIR} --topics --freeable", "shows what retention and compaction would free"),
            Step(
                f"kafkalog retain {LOG_DIR} {BROKER_CONFIG} --config retention.ms=86400000 --topic orders --dry-run",
                "prints which segments of a topic go with a shorter retention. It changes nothing",
            ),
            Step(
                f"kafkalog purge {LOG_DIR} --dry-run",
                "shows what files of earlier runs and of the broker's deletions can go",
            ),
        ),
    ),
    BrokerMessage(
        "input-output-error",
        (
            Text("Input/output error", OPERATING_SYSTEM),
            Text("Exception while reading from {} in dir {}", "LocalLog"),
        ),
        "The disk cannot read or write some sectors. The broker takes the log directory offline at the first such "
        "error.",
        "Each further read may lose more. Copy the disk first (ddrescue), and work on the copy.",
        (
            Step("dmesg --level=err", "shows the kernel's errors of the device"),
            Step(f"kafkalog verify {LOG_DIR}", "names the byte ranges that cannot be read, and reads around them"),
            _SALVAGE,
        ),
        ("unreadable-range",),
    ),
    BrokerMessage(
        "read-only-file-system",
        _one("Read-only file system", OPERATING_SYSTEM),
        "The kernel remounted the file system read-only, mostly after an I/O error or a damaged journal.",
        "Nothing more is lost while it is read-only. Run the file system's own check before you mount it for writing.",
        (Step(f"findmnt --target {LOG_DIR}", "shows the mount's options"), _LOOK),
    ),
    BrokerMessage(
        "too-many-open-files",
        _one("Too many open files", OPERATING_SYSTEM),
        "The broker has no file descriptors left. Each segment needs some, and each index a memory map.",
        "No record, but the broker takes directories offline for it, and may leave indexes half written.",
        (
            Step(f"kafkalog ls {LOG_DIR} --topics --sort size", "shows how many segments each topic has"),
            _LOOK,
        ),
    ),
    BrokerMessage(
        "permission-denied",
        _one("Permission denied", OPERATING_SYSTEM),
        "The broker's user may not read or write a file. Somebody ran a tool as root, or restored a backup without "
        "owners.",
        "Nothing on disk. Writers of kafkalog keep the owner of what they replace.",
        (
            Step(f"find {LOG_DIR} ! -user kafka -ls", "lists files that belong to another user"),
            Step(f"kafkalog ls {LOG_DIR}", "names the entries that cannot be read"),
        ),
    ),
    BrokerMessage(
        "log-dir-offline",
        (
            Text("Stopping serving logs in dir {}", "LogManager"),
            Text("The log dir {} is already offline due to a previous IO exception.", "LocalLog"),
            Text(
                "Logs for partitions {} are offline and logs for future partitions {} are offline due to failure on "
                "log directory {}",
                "LogManager",
            ),
            Text("Shutdown broker because all log dirs in {} have failed", "LogManager"),
        ),
        "An I/O error made the broker give up a log directory. The first error above this line is the cause: look for "
        "the message before it. The directory comes back only with a restart.",
        "All its partitions are unavailable on this broker. Their records are on the disk, as far as the disk returns "
        "them.",
        (_LOOK, _AS_BROKER),
    ),
    BrokerMessage(
        "flush-failed",
        (
            Text("Error while flushing log for {} in dir {} with offset {} ({}) and recovery point {}", "UnifiedLog"),
            Text("Error while rolling log segment for {} in dir {}", "LocalLog"),
        ),
        "fsync failed. After a failed fsync, the kernel may have dropped the pages that were not written, and a later "
        "fsync can succeed without them.",
        "Records after the recovery point may be missing in the file although the broker acknowledged them.",
        (
            _LOOK,
            Step(
                f"kafkalog verify {PARTITION} --against /var/lib/kafka/copy/orders-0",
                "compares with another replica batch by batch",
            ),
        ),
    ),
)

RETENTION_AND_CLEANING = (
    BrokerMessage(
        "deleting-segment-by-time",
        (
            Text(
                "Deleting segment {} due to log retention time {}ms breach based on the largest record timestamp in "
                "the segment",
                "UnifiedLog",
            ),
            Text(
                "Deleting segment {} due to log retention time {}ms breach based on the last modified time of the "
                "segment",
                "UnifiedLog",
            ),
            Text(
                "Deleting segment {} due to log retention size {} breach. Log size after deletion will be {}.",
                "UnifiedLog",
            ),
            Text("Deleting segments due to log start offset {} breach: {}", "UnifiedLog"),
        ),
        "Retention removed a segment. That is the topic's setting at work. If it is a surprise, producers send "
        "timestamps in seconds, or retention.ms is in hours: both make segments look old.",
        "The records of the segment. The files stay as .deleted for file.delete.delay.ms (one minute by default).",
        (
            Step(
                f"kafkalog retain {PARTITION} {BROKER_CONFIG} --dry-run --explain",
                "shows for every segment by which setting and when it is removed. It changes nothing",
            ),
            Step(f"kafkalog verify {PARTITION} --level deep", "finds timestamps in the wrong unit"),
        ),
        ("timestamp-unit",),
    ),
    BrokerMessage(
        "future-timestamps",
        _one("{} contains future timestamp(s), making it ineligible to be deleted", "UnifiedLog"),
        "A segment holds a timestamp in the future, so that retention by time does not remove it, nor any segment "
        "after it. A producer's clock is wrong, or it sends microseconds.",
        "The disk fills.",
        (
            Step(f"kafkalog lookup-time {PARTITION} --max-timestamp", "finds the record with the largest timestamp"),
            Step(
                f"kafkalog retain {PARTITION} {BROKER_CONFIG} --config retention.bytes=1073741824 --dry-run --explain",
                "shows what retention by size removes, which does not look at timestamps. It changes nothing",
            ),
        ),
        ("future-timestamp", "timestamp-unit"),
    ),
    BrokerMessage(
        "log-cleaner-failed",
        (
            Text(
                "Unexpected exception thrown when cleaning log {}. Marking its partition ({}) as uncleanable",
                "LogCleaner$CleanerThread",
            ),
            Text("Log segment may be corrupt, batch size {} > {} bytes left in segment for {}", "Cleaner"),
            Text("Failed to read from segment {} of partition {} while loading offset map", "Cleaner"),
        ),
        "The cleaner met a batch that it cannot read and gave the partition up until the broker starts again. The "
        "log is no longer compacted, and it grows. For __consumer_offsets this ends in slow loading and a full "
        "disk.",
        "No record yet. Consumers that reach the batch fail there, too.",
        (
            _LEVEL,
            Step(
                f"kafkalog compact {PARTITION} {BROKER_CONFIG} --dry-run --estimate",
                "shows how much of the log is dirty",
            ),
            _SALVAGE,
        ),
        ("crc-mismatch", "decompression-failed"),
    ),
    BrokerMessage(
        "cleaner-buffer-too-small",
        (
            Text(
                "offset map is too small to fit in even a single message, so log cleaning will never make progress. "
                "You can increase log.cleaner.dedupe.buffer.size or decrease log.cleaner.threads",
                "Cleaner",
            ),
            Text("This log contains a message larger than maximum allowable size of {}.", "Cleaner"),
        ),
        "The cleaner's buffers cannot hold what the log has: too few bytes for its map of keys, or a batch larger than "
        "message.max.bytes of today.",
        "The log grows until the setting is changed.",
        (
            Step(f"kafkalog dump-log {PARTITION} --format json", "prints the size of each batch"),
            Step(
                f"kafkalog compact {PARTITION} {BROKER_CONFIG} --dry-run --estimate",
                "cleans with its own buffers, on a dry run",
            ),
        ),
    ),
    BrokerMessage(
        "cleaner-checkpoint-reset",
        (
            Text(
                "Resetting first dirty offset of {} to log start offset {} since the checkpointed offset {} is "
                "invalid.",
                "LogCleanerManager",
            ),
            Text(
                "The last checkpoint dirty offset for partition {} is {}, which is larger than the log end offset {}. "
                "Resetting to the log start offset {}.",
                "LogCleanerManager",
            ),
            Text("Failed to access checkpoint file {} in dir {}", "LogCleanerManager"),
        ),
        "cleaner-offset-checkpoint does not fit the log: the log was truncated, restored from a backup, or started "
        "later. The cleaner begins again at the log's start.",
        "Nothing: the next cleaning takes longer.",
        (
            Step(f"kafkalog dump-index {LOG_DIR}/cleaner-offset-checkpoint", "prints the lines of the checkpoint"),
            _LOOK_PARTITION,
        ),
        ("cleaner-offset-beyond-end",),
    ),
    BrokerMessage(
        "invalid-messages-during-compaction",
        _one("\tFound {} invalid messages during compaction.", "LogCleaner$CleanerThread"),
        "The cleaner met records without a key in a compacted topic, written before the topic was compacted. It drops "
        "them.",
        "The records without a key.",
        (
            Step(
                f"kafkalog read {PARTITION} --print offset,key --max-records 100", "prints keys; null is a missing key"
            ),
        ),
    ),
)

REPLICATION = (
    BrokerMessage(
        "truncating-below-high-watermark",
        (
            Text("Truncating {}{} to offset {} below high watermark {}", "UnifiedLog"),
            Text("Truncating partition {} with {} due to leader epoch and offset {}", "AbstractFetcherThread"),
        ),
        "A follower cuts its log to agree with the leader. Below the high watermark, that means that acknowledged "
        "records are cut off: an unclean leader election took place, or the leader lost its disk.",
        "The records after the offset. They may exist nowhere else: stop the follower and copy the partition before "
        "it truncates more.",
        (
            Step(f"cp -a --reflink=auto {PARTITION} /var/lib/kafka/copy/orders-0", "keeps the records"),
            Step(
                f"kafkalog verify {PARTITION} --against /var/lib/kafka/copy/orders-0",
                "shows where the replicas part",
            ),
        ),
        ("high-watermark-beyond-end",),
    ),
    BrokerMessage(
        "truncate-fully",
        _one(
            "Truncate fully and reset fetch offset for partition {} from {} to the current leader's start offset {} "
            "because the local replica's end offset is smaller than the current leader's start offsets.",
            "AbstractFetcherThread",
        ),
        "The follower was away for long. Retention on the leader has removed every record that the follower has. "
        "The follower drops its log and fetches the leader's.",
        "Nothing that the cluster still keeps.",
        (_LOOK_PARTITION,),
    ),
    BrokerMessage(
        "non-monotonic-high-watermark",
        _one("Non-monotonic update of high watermark from {} to {}", "UnifiedLog"),
        "The high watermark of a partition goes back: the log was truncated, or replication-offset-checkpoint is older "
        "than the log.",
        "Consumers may see records twice that lie between both offsets.",
        (_CHECKPOINTS, _LOOK_PARTITION),
        ("high-watermark-beyond-end",),
    ),
    BrokerMessage(
        "epoch-entries-truncated",
        _one(
            "New epoch entry {} caused truncation of conflicting entries {}. Cache now contains {} entries.",
            "LeaderEpochFileCache",
        ),
        "A new leader epoch does not fit the entries of leader-epoch-checkpoint. The checkpoint is older or newer than "
        "the log: a restore mixed files of two times.",
        "Followers find the place where logs part by these entries. With wrong entries they may truncate too little "
        "or too much.",
        (
            Step(f"kafkalog dump-index {PARTITION}/leader-epoch-checkpoint", "prints the entries"),
            _LOOK_PARTITION,
        ),
        ("leader-epochs-wrong", "epoch-goes-back"),
    ),
    BrokerMessage(
        "abandoned-future-log",
        (
            Text("Attempting to recover abandoned future log for {} at {}", "LogManager"),
            Text("Attempting to recover abandoned future log for {} at {} and removing {}", "LogManager"),
        ),
        "A move between log directories was finished on one side only when the broker stopped. The broker takes the "
        "-future directory as the partition.",
        "The older directory is removed. Compare both before the start if you are not sure which is complete.",
        (Step(f"kafkalog ls {LOG_DIR}", "lists -future directories with their offsets"), _LOOK),
    ),
)

METADATA = (
    BrokerMessage(
        "quorum-state-unreadable",
        (
            Text("Error while reading the Quorum status from the file {}", "FileQuorumStateStore"),
            Text("Quorum state data version ({}) is greater than the supported version ({})", "FileQuorumStateStore"),
        ),
        "The file quorum-state of the metadata log is damaged or was written by a newer Kafka. It holds the epoch and "
        "the vote of this controller.",
        "Without it, a controller may vote twice in one epoch. Restore it, or remove it only on a controller that the "
        "quorum can spare.",
        (
            Step(f"kafkalog dump-index {LOG_DIR}/__cluster_metadata-0/quorum-state", "prints the file"),
            _LOOK,
        ),
        ("quorum-state-damaged",),
    ),
    BrokerMessage(
        "metadata-snapshot-missing",
        (
            Text(
                "Inconsistent snapshot state: there must be a snapshot at an offset larger then the current log start "
                "offset {}, but the latest snapshot is {}",
                "KafkaMetadataLog$, KafkaRaftLog",
            ),
        ),
        "The metadata log begins after offset 0, and the snapshot that stands for its removed part is not there.",
        "The node cannot build its metadata. With other controllers in the quorum, it can fetch a snapshot from them.",
        (
            Step(f"kafkalog ls {LOG_DIR}", "lists segments and snapshots of __cluster_metadata-0"),
            _LOOK,
        ),
    ),
    BrokerMessage(
        "metadata-directory-io-error",
        _one(
            "Encountered I/O error in metadata log directory {}. Cannot continue.",
            "MetaPropertiesEnsemble",
        ),
        "The directory that holds the metadata log cannot be read. A broker can lose other log directories and go on; "
        "this directory it needs.",
        "The other directories are not touched. A broker can start with an empty metadata directory and fetch the "
        "metadata from the controllers; a controller must not, unless the quorum can spare it.",
        (Step("dmesg --level=err", "shows the kernel's errors of the device"), _LOOK),
    ),
    BrokerMessage(
        "coordinator-load-failed",
        (
            Text("Failed to load metadata from {} with epoch {} due to {}.", "CoordinatorRuntime$CoordinatorContext"),
            Text("Deserializing record {} from {} failed.", "CoordinatorLoaderImpl"),
        ),
        "The coordinator cannot read a partition of __consumer_offsets, __transaction_state or __share_group_state: a "
        "damaged batch, or a record of a newer Kafka.",
        "All groups or transactions of that partition are unavailable: consumers cannot join or commit.",
        (
            _LOOK,
            Step(
                f"kafkalog dump-log {LOG_DIR}/__consumer_offsets-0 --offsets-decoder",
                "prints the records of the group coordinator, and names the record that cannot be read",
            ),
        ),
        ("crc-mismatch", "invalid-record"),
    ),
)

SECTIONS: tuple[tuple[str, tuple[BrokerMessage, ...]], ...] = (
    ("When the broker starts", AT_START),
    ("Segments", SEGMENTS),
    ("Indexes and snapshots", INDEXES),
    ("Checkpoints", CHECKPOINTS),
    ("The disk", DISK),
    ("Retention and the cleaner", RETENTION_AND_CLEANING),
    ("Replication", REPLICATION),
    ("Metadata and coordinators", METADATA),
)

MESSAGES: tuple[BrokerMessage, ...] = tuple(message for _, messages in SECTIONS for message in messages)

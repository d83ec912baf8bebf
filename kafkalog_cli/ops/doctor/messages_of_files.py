"""The lines that a broker prints about segments and their batches, indexes, snapshots and checkpoints."""

from kafkalog_cli.ops.doctor.broker_message import (
    AGAINST_COPY,
    AS_BROKER,
    CHECKPOINTS,
    FILLS,
    INDEXES,
    LIST,
    LOG_DIR,
    LOOK,
    LOOK_PARTITION,
    PARTITION,
    RECOVER,
    SALVAGE,
    TRY,
    BrokerMessage,
    BrokerStep,
    texts_in,
)

ABOUT_SEGMENTS = (
    BrokerMessage(
        "corruption-found-in-segment",
        texts_in("LogLoader", "Corruption found in segment {}, truncating to offset {}"),
        "While it recovers after an unclean stop, the broker found a batch that is incomplete or has a wrong checksum. "
        "It cuts the segment there, and it deletes all later segments of the partition, with every valid batch in "
        "them.",
        "If the bad batch is the last of the log, only unacknowledged or unflushed records are lost. If valid batches "
        "follow it, they are lost on this replica. A follower fetches them again from the leader; the last in-sync "
        "replica cannot.",
        (
            BrokerStep(
                f"kafkalog verify {PARTITION}",
                "says, before the broker starts, whether valid batches follow the damage",
            ),
            SALVAGE,
            RECOVER,
        ),
        ("torn-tail", "damaged-range", "crc-mismatch"),
    ),
    BrokerMessage(
        "found-invalid-messages",
        texts_in("LogSegment", "Found invalid messages in log segment {} at byte offset {}."),
        "Recovery of a segment stopped at this byte: the batch there has a wrong checksum or an impossible length. "
        "The broker truncates the log at this place next.",
        "See how many valid batches follow before you let the broker start.",
        (
            LOOK_PARTITION,
            BrokerStep(
                f"kafkalog dump-log {PARTITION} --resync --from-offset 0",
                "prints the batches before and after the damage",
            ),
            SALVAGE,
        ),
        ("crc-mismatch", "damaged-range"),
    ),
    BrokerMessage(
        "truncated-invalid-bytes",
        texts_in("LogSegment", "Truncated {} invalid bytes at the end of segment {} during recovery"),
        "The broker cut an incomplete batch off the end of the active segment. After a kill or a power cut, this is "
        "normal. The broker says it at level DEBUG.",
        "Only records that were never written completely. The broker does not keep the bytes.",
        (LOOK_PARTITION,),
        ("torn-tail",),
    ),
    BrokerMessage(
        "found-invalid-offset",
        texts_in(
            "LogLoader",
            "Found invalid offset during recovery. Deleting the corrupt segment and creating an empty one with "
            "starting offset {}",
        ),
        "A segment holds an offset that goes back, or that does not fit its index. The broker empties the whole "
        "segment and deletes all later segments.",
        "All records from the segment's base offset on. Salvage them before the broker starts.",
        (LOOK_PARTITION, SALVAGE),
        ("offsets-not-ascending", "offset-outside-segment"),
    ),
    BrokerMessage(
        "log-end-before-log-start",
        texts_in(
            "LogLoader",
            "Deleting all segments because logEndOffset ({}) is smaller than logStartOffset {}. This could happen if "
            "segment files were deleted from the file system.",
        ),
        "log-start-offset-checkpoint says that the log begins after its last record. Someone deleted segment files, "
        "or an older copy of the partition was put beside newer checkpoints. The broker deletes the whole log.",
        "Every record of the partition on this replica.",
        (
            CHECKPOINTS,
            LOOK_PARTITION,
            BrokerStep(
                f"kafkalog recover {PARTITION} --dry-run",
                "says what happens to the log and to the line of the checkpoint",
            ),
        ),
        ("log-start-beyond-end",),
    ),
    BrokerMessage(
        "deleting-segments-log-recovery",
        texts_in("LogLoader", "Deleting segments as part of log recovery: {}"),
        "The broker removes segments that lie after a damaged segment. They get the suffix .deleted, and the broker "
        "removes them after file.delete.delay.ms (one minute by default).",
        "All records in these segments. While the .deleted files exist, they can be saved: stop the broker at once "
        "and copy them away.",
        (BrokerStep(f"kafkalog ls {PARTITION}", "lists .deleted files that are still there"), LOOK_PARTITION),
    ),
    BrokerMessage(
        "segment-overflow",
        (
            *texts_in("LogSegmentOffsetOverflowException", "Detected offset overflow at offset {} in segment {}"),
            *texts_in("LogLoader", "Caught segment overflow error: {}. Split segment and retry."),
            *texts_in("Cleaner", "Caught segment overflow error during cleaning: {}"),
        ),
        "A segment spans more than 2,147,483,647 offsets, more than an index entry can hold. Cleaners before 1.0 left "
        "such segments (KAFKA-6264). The broker splits the segment by itself.",
        "Nothing is lost by the split. It needs room for a copy of the segment.",
        (
            LOOK_PARTITION,
            BrokerStep(f"kafkalog recover {PARTITION} --dry-run", "shows into which segments it is split"),
        ),
    ),
    BrokerMessage(
        "interrupted-swap",
        texts_in(
            "LogLoader",
            "Found log file {} from interrupted swap operation, which is recoverable from {} files by renaming.",
            "Deleting invalid swap file {} minCleanedFileOffset: {}",
            "Deleting stray .clean file {}",
            "Deleting stray temporary file {}",
            "Recovering file {} by renaming from {} files.",
        ),
        "The broker stopped while the cleaner replaced segments, or while it split a segment. The files with .cleaned "
        "and .swap are the traces. The broker completes the replacement, or undoes it.",
        "Nothing: both the old and the new segments hold what a consumer has to get.",
        (LOOK_PARTITION, AS_BROKER),
        ("leftover-swap", "leftover-cleaned"),
    ),
    BrokerMessage(
        "rolled-segment-exists",
        texts_in(
            "LocalLog",
            "Newly rolled segment file {} already exists; deleting it first",
            "Trying to roll a new log segment for topic partition {} with start offset {} =max(provided offset = "
            "{}, LEO = {}) while it already exists. Existing segment is {}.",
        ),
        "The broker wants to begin a segment, and a file with its name is there already. Somebody copied it there by "
        "hand, or restored a backup over a live directory.",
        "The broker deletes the file that it finds.",
        (LOOK_PARTITION, LIST),
    ),
    BrokerMessage(
        "record-is-corrupt",
        (
            *texts_in("UnifiedLog", "Record is corrupt (stored crc = {}) in topic partition {}."),
            *texts_in("AbstractFetcherThread", "Found invalid messages during fetch for partition {} offset {}"),
            *texts_in("ByteBufferLogInputStream", "Record size {} is less than the minimum record overhead ({})"),
            *texts_in(
                "FileLogInputStream", "Found record size {} smaller than minimum record overhead ({}) in file {}."
            ),
        ),
        "A follower got a batch with a wrong checksum from the leader. Either the leader's disk returns damaged bytes, "
        "or the network or memory between them changed them. The follower retries and stays out of the in-sync "
        "replicas.",
        "The leader serves the damaged batch to consumers, too. If a follower is whole, let it become the leader "
        "before the leader's copy is repaired.",
        (
            BrokerStep(
                f"kafkalog verify {PARTITION}", "shows, on the leader's disk, whether the batch is damaged there"
            ),
            BrokerStep(AGAINST_COPY, "compares the replicas batch by batch"),
        ),
        ("crc-mismatch",),
    ),
    BrokerMessage(
        "offset-out-of-range",
        (
            *texts_in(
                "UnifiedLog",
                "Received request for offset {} for partition {}, but we only have log segments starting from offset: "
                "{}.",
            ),
            *texts_in(
                "LocalLog", "Received request for offset {} for partition {}, but we only have log segments upto {}."
            ),
        ),
        "A consumer asked for an offset that the log does not have: retention removed it, the log was truncated, or "
        "the group's committed offset comes from another cluster.",
        "The consumer goes on at auto.offset.reset, so it may skip records or read everything again.",
        (
            BrokerStep(f"kafkalog ls {PARTITION}", "shows first and last offset"),
            BrokerStep(f"kafkalog lookup-offset {PARTITION} 0", "finds the first record at or after an offset"),
        ),
    ),
)


ABOUT_INDEXES = (
    BrokerMessage(
        "corrupted-index-file",
        (
            *texts_in(
                "LogLoader",
                "Found a corrupted index file corresponding to log file {} due to {}, recovering segment and "
                "rebuilding index files...",
            ),
            *texts_in(
                "OffsetIndex",
                "Corrupt index found, index file {} has non-zero size but the last offset is {} which is less than "
                "the base offset {}",
                "Index file {} is corrupt, found {} bytes which is neither positive nor a multiple of 8",
            ),
        ),
        "An offset index fails the broker's sanity check. The broker reads the whole segment and rebuilds its "
        "indexes. After an unclean stop this is normal: index files are preallocated with zeros.",
        "Nothing by itself. But to rebuild an index, the broker recovers the segment: it cuts the segment at the "
        "first damaged batch. Check the log before the start.",
        (LOOK_PARTITION, INDEXES),
        ("offset-index-wrong",),
    ),
    BrokerMessage(
        "missing-offset-index",
        texts_in(
            "LogLoader",
            "Could not find offset index file corresponding to log file {}, recovering segment and rebuilding index "
            "files...",
        ),
        "A segment has no .index file. The copy of the directory left it out, or someone removed it to have it "
        "rebuilt.",
        "Nothing by itself; the broker reads the whole segment, which takes time, and cuts it at the first damaged "
        "batch.",
        (LOOK_PARTITION, INDEXES),
        ("offset-index-missing",),
    ),
    BrokerMessage(
        "orphaned-index-file",
        texts_in("LogLoader", "Found an orphaned index file {}, with no corresponding log file."),
        "An index lies there without its .log file. The broker removes the index. If the .log file was deleted by "
        "accident, its records are missing.",
        "The index alone holds no records. Find out where the segment went before the start.",
        (LOOK_PARTITION, BrokerStep(f"kafkalog ls {PARTITION}", "shows the gap between the segments that are there")),
        ("orphan-index", "missing-offsets"),
    ),
    BrokerMessage(
        "corrupt-time-index",
        texts_in(
            "TimeIndex",
            "Corrupt time index found, time index file ({}) has non-zero size but the last timestamp is {} which "
            "is less than the first timestamp {}",
            "Corrupt time index found, time index file ({}) has non-zero size but the last offset is {} which is "
            "less than the first offset {}",
            "Time index file {} is corrupt, found {} bytes which is neither positive nor a multiple of 12",
        ),
        "A .timeindex file fails the broker's sanity check. The broker recovers the segment and rebuilds its indexes.",
        "Until then, look-ups by time and retention by time may go wrong. The records are not touched.",
        (LOOK_PARTITION, INDEXES),
        ("time-index-wrong",),
    ),
    BrokerMessage(
        "index-append-refused",
        texts_in(
            "OffsetIndex",
            "Attempt to append an offset {} to position {} no larger than the last offset appended ({}) to {}",
            "Attempt to append to a full index (size = {}).",
        ),
        "The broker wants to add an entry to an index whose last entry is already at or after it. The index holds "
        "entries of records that the log does not have, or the log goes back.",
        "The append fails, and so do all later appends to this partition, until the index is rebuilt.",
        (LOOK_PARTITION, INDEXES),
        ("offset-index-wrong", "offsets-not-ascending"),
    ),
    BrokerMessage(
        "corrupt-transaction-index",
        (
            *texts_in(
                "TransactionIndex", "Last offset of aborted transaction {} in index {} is less than start offset {}"
            ),
            *texts_in(
                "TransactionIndex$1",
                "Unexpected aborted transaction version {} in transaction index {}, current version is 0",
                "Unexpected aborted transaction version {} in transaction index {}, supported version range is 0 to 0",
            ),
        ),
        "A .txnindex file holds an entry that cannot be true. The broker rebuilds it when it recovers the segment.",
        "With a wrong transaction index, consumers with read_committed may get records of aborted transactions.",
        (LOOK_PARTITION, INDEXES),
        ("txn-index-wrong",),
    ),
    BrokerMessage(
        "corrupt-producer-snapshot",
        texts_in(
            "ProducerStateManager",
            "Failed to load producer snapshot from '{}': {}",
            "Snapshot is corrupt (CRC is no longer valid). Stored crc: {}. Computed crc: {}",
            "Snapshot failed schema validation: {}",
            "Snapshot contained an unknown file version {}",
        ),
        "A .snapshot file of producer state is damaged. The broker deletes it, takes an older one, or reads the log "
        "from its start to learn which producers wrote.",
        "No record. If older parts of the log are gone already, the broker forgets producers of those parts: a "
        "producer that retries may write a duplicate.",
        (LOOK_PARTITION, INDEXES),
        ("producer-snapshot-wrong",),
    ),
)

ABOUT_CHECKPOINTS = (
    BrokerMessage(
        "recovery-point-checkpoint",
        texts_in(
            "LogManager",
            "Error occurred while reading recovery-point-offset-checkpoint file of directory {}, resetting the "
            "recovery checkpoint to 0",
        ),
        "The broker cannot read recovery-point-offset-checkpoint. In spite of its last words, an unreadable checkpoint "
        "takes the whole log directory offline.",
        "No record. All partitions of the directory are unavailable until the file is mended.",
        (CHECKPOINTS, TRY, BrokerStep(f"kafkalog recover {LOG_DIR}", "rebuilds the lines from the logs")),
        ("checkpoint-malformed",),
    ),
    BrokerMessage(
        "log-start-checkpoint",
        texts_in(
            "LogManager",
            "Error occurred while reading log-start-offset-checkpoint file of directory {}, resetting to the base "
            "offset of the first segment",
        ),
        "The broker cannot read log-start-offset-checkpoint, and the log directory goes offline.",
        "Without its line, records that kafka-delete-records removed from the front of a log are visible again up to "
        "the segment's start.",
        (CHECKPOINTS, TRY, BrokerStep(f"kafkalog recover {LOG_DIR}", "rebuilds the lines that the logs can prove")),
        ("checkpoint-malformed",),
    ),
    BrokerMessage(
        "malformed-checkpoint",
        (
            *texts_in(
                "CheckpointFile$CheckpointReadBuffer",
                "Malformed line in checkpoint file [{}]: {}",
                "Expected [{}] entries in checkpoint file [{}], but found only [{}]",
                "Unrecognised version:{}, expected version: {} in checkpoint file at: {}",
            ),
            *texts_in("CheckpointFileWithFailureHandler", "Error while reading checkpoint file {}"),
        ),
        "A checkpoint of a log directory, or leader-epoch-checkpoint of a partition, is cut short or was edited by "
        "hand. A full disk and a power cut leave such files.",
        "The log directory goes offline for one damaged text file. The records are not touched.",
        (CHECKPOINTS, LOOK, BrokerStep(f"kafkalog recover {LOG_DIR}", "rebuilds damaged checkpoints from the logs")),
        ("checkpoint-malformed", "leader-epochs-wrong"),
    ),
    BrokerMessage(
        "checkpoint-write-failed",
        (
            *texts_in("CheckpointFileWithFailureHandler", "Error while writing to checkpoint file {}"),
            *texts_in(
                "LogManager",
                "Disk error while writing recovery offsets checkpoint in directory {}: {}",
                "Disk error while writing log start offsets checkpoint in directory {}: {}",
            ),
        ),
        "The disk refused a small write: it is full, it was remounted read-only, or it fails. The broker takes the "
        "directory offline.",
        "Unflushed records of every partition of the directory, if the machine loses power now.",
        (FILLS, LOOK),
    ),
)

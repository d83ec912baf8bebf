"""The lines that a broker prints about indexes, snapshots and checkpoints."""

from __future__ import annotations

from kafkalog_cli.ops.doctor.broker_message import (
    CHECKPOINTS,
    FILLS,
    INDEXES,
    LOG_DIR,
    LOOK,
    LOOK_PARTITION,
    PARTITION,
    TRY,
    BrokerMessage,
    BrokerStep,
    BrokerText,
    one_text,
)

ABOUT_INDEXES = (
    BrokerMessage(
        "corrupted-index-file",
        (
            BrokerText(
                "Found a corrupted index file corresponding to log file {} due to {}, recovering segment and "
                "rebuilding index files...",
                "LogLoader",
            ),
            BrokerText(
                "Corrupt index found, index file {} has non-zero size but the last offset is {} which is less than "
                "the base offset {}",
                "OffsetIndex",
            ),
            BrokerText(
                "Index file {} is corrupt, found {} bytes which is neither positive nor a multiple of 8", "OffsetIndex"
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
        one_text(
            "Could not find offset index file corresponding to log file {}, recovering segment and rebuilding index "
            "files...",
            "LogLoader",
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
        one_text("Found an orphaned index file {}, with no corresponding log file.", "LogLoader"),
        "An index lies there without its .log file. The broker removes the index. If the .log file was deleted by "
        "accident, its records are missing.",
        "The index alone holds no records. Find out where the segment went before the start.",
        (LOOK_PARTITION, BrokerStep(f"kafkalog ls {PARTITION}", "shows the gap between the segments that are there")),
        ("orphan-index", "missing-offsets"),
    ),
    BrokerMessage(
        "corrupt-time-index",
        (
            BrokerText(
                "Corrupt time index found, time index file ({}) has non-zero size but the last timestamp is {} which "
                "is less than the first timestamp {}",
                "TimeIndex",
            ),
            BrokerText(
                "Corrupt time index found, time index file ({}) has non-zero size but the last offset is {} which is "
                "less than the first offset {}",
                "TimeIndex",
            ),
            BrokerText(
                "Time index file {} is corrupt, found {} bytes which is neither positive nor a multiple of 12",
                "TimeIndex",
            ),
        ),
        "A .timeindex file fails the broker's sanity check. The broker recovers the segment and rebuilds its indexes.",
        "Until then, look-ups by time and retention by time may go wrong. The records are not touched.",
        (LOOK_PARTITION, INDEXES),
        ("time-index-wrong",),
    ),
    BrokerMessage(
        "index-append-refused",
        (
            BrokerText(
                "Attempt to append an offset {} to position {} no larger than the last offset appended ({}) to {}",
                "OffsetIndex",
            ),
            BrokerText("Attempt to append to a full index (size = {}).", "OffsetIndex"),
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
            BrokerText(
                "Last offset of aborted transaction {} in index {} is less than start offset {}", "TransactionIndex"
            ),
            BrokerText(
                "Unexpected aborted transaction version {} in transaction index {}, current version is 0",
                "TransactionIndex$1",
            ),
            BrokerText(
                "Unexpected aborted transaction version {} in transaction index {}, supported version range is 0 to 0",
                "TransactionIndex$1",
            ),
        ),
        "A .txnindex file holds an entry that cannot be true. The broker rebuilds it when it recovers the segment.",
        "With a wrong transaction index, consumers with read_committed may get records of aborted transactions.",
        (LOOK_PARTITION, INDEXES),
        ("txn-index-wrong",),
    ),
    BrokerMessage(
        "corrupt-producer-snapshot",
        (
            BrokerText("Failed to load producer snapshot from '{}': {}", "ProducerStateManager"),
            BrokerText(
                "Snapshot is corrupt (CRC is no longer valid). Stored crc: {}. Computed crc: {}",
                "ProducerStateManager",
            ),
            BrokerText("Snapshot failed schema validation: {}", "ProducerStateManager"),
            BrokerText("Snapshot contained an unknown file version {}", "ProducerStateManager"),
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
        one_text(
            "Error occurred while reading recovery-point-offset-checkpoint file of directory {}, resetting the "
            "recovery checkpoint to 0",
            "LogManager",
        ),
        "The broker cannot read recovery-point-offset-checkpoint. In spite of its last words, an unreadable checkpoint "
        "takes the whole log directory offline.",
        "No record. All partitions of the directory are unavailable until the file is mended.",
        (CHECKPOINTS, TRY, BrokerStep(f"kafkalog recover {LOG_DIR}", "rebuilds the lines from the logs")),
        ("checkpoint-malformed",),
    ),
    BrokerMessage(
        "log-start-checkpoint",
        one_text(
            "Error occurred while reading log-start-offset-checkpoint file of directory {}, resetting to the base "
            "offset of the first segment",
            "LogManager",
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
            BrokerText("Malformed line in checkpoint file [{}]: {}", "CheckpointFile$CheckpointReadBuffer"),
            BrokerText(
                "Expected [{}] entries in checkpoint file [{}], but found only [{}]",
                "CheckpointFile$CheckpointReadBuffer",
            ),
            BrokerText(
                "Unrecognised version:{}, expected version: {} in checkpoint file at: {}",
                "CheckpointFile$CheckpointReadBuffer",
            ),
            BrokerText("Error while reading checkpoint file {}", "CheckpointFileWithFailureHandler"),
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
            BrokerText("Error while writing to checkpoint file {}", "CheckpointFileWithFailureHandler"),
            BrokerText("Disk error while writing recovery offsets checkpoint in directory {}: {}", "LogManager"),
            BrokerText("Disk error while writing log start offsets checkpoint in directory {}: {}", "LogManager"),
        ),
        "The disk refused a small write: it is full, it was remounted read-only, or it fails. The broker takes the "
        "directory offline.",
        "Unflushed records of every partition of the directory, if the machine loses power now.",
        (FILLS, LOOK),
    ),
)

"""The lines that a broker prints about disks, retention and its cleaner."""

from kafkalog_cli.ops.doctor.broker_message import (
    AGAINST_COPY,
    AS_BROKER,
    BROKER_CONFIG,
    FILLS,
    JAVA,
    LEVEL,
    LIST,
    LOG_DIR,
    LOOK,
    LOOK_PARTITION,
    OPERATING_SYSTEM,
    PARTITION,
    SALVAGE,
    BrokerMessage,
    BrokerStep,
    texts_in,
)

ABOUT_DISKS = (
    BrokerMessage(
        "no-space-left-on-device",
        (
            *texts_in(OPERATING_SYSTEM, "No space left on device"),
            *texts_in("UnifiedLog", "Error while appending records to {} in dir {}"),
        ),
        "The disk is full. The broker takes the log directory offline and stops serving its partitions; with one "
        "directory, it ends. It will not start on a full disk, as loading needs room, too.",
        "Do not delete segment files by hand: an index without its log, or a gap in the middle, is worse than a full "
        "disk. And .log files of compacted topics hold the newest value of each key.",
        (
            FILLS,
            BrokerStep(f"kafkalog ls {LOG_DIR} --topics --freeable", "shows what retention and compaction would free"),
            BrokerStep(
                f"kafkalog retain {LOG_DIR} {BROKER_CONFIG} --config retention.ms=86400000 --topic orders --dry-run",
                "prints which segments of a topic go with a shorter retention. It changes nothing",
            ),
            BrokerStep(
                f"kafkalog purge {LOG_DIR} --dry-run",
                "shows what files of earlier runs and of the broker's deletions can go",
            ),
        ),
    ),
    BrokerMessage(
        "input-output-error",
        (
            *texts_in(OPERATING_SYSTEM, "Input/output error"),
            *texts_in("LocalLog", "Exception while reading from {} in dir {}"),
        ),
        "The disk cannot read or write some sectors. The broker takes the log directory offline at the first such "
        "error.",
        "Each further read may lose more. Copy the disk first (ddrescue), and work on the copy.",
        (
            BrokerStep("dmesg --level=err", "shows the kernel's errors of the device"),
            BrokerStep(
                f"kafkalog verify {LOG_DIR}", "names the byte ranges that cannot be read, and reads around them"
            ),
            SALVAGE,
        ),
        ("unreadable-range",),
    ),
    BrokerMessage(
        "read-only-file-system",
        texts_in(OPERATING_SYSTEM, "Read-only file system"),
        "The kernel remounted the file system read-only, mostly after an I/O error or a damaged journal.",
        "Nothing more is lost while it is read-only. Run the file system's own check before you mount it for writing.",
        (BrokerStep(f"findmnt --target {LOG_DIR}", "shows the mount's options"), LOOK),
    ),
    BrokerMessage(
        "too-many-open-files",
        texts_in(OPERATING_SYSTEM, "Too many open files"),
        "The broker has no file descriptors left. Each segment needs some, and each index a memory map.",
        "No record, but the broker takes directories offline for it, and may leave indexes half written.",
        (BrokerStep(f"kafkalog ls {LOG_DIR} --topics --sort size", "shows how many segments each topic has"), LOOK),
    ),
    BrokerMessage(
        "permission-denied",
        (*texts_in(OPERATING_SYSTEM, "Permission denied"), *texts_in(JAVA, "java.nio.file.AccessDeniedException: {}")),
        "The broker's user may not read or write a file. Somebody ran a tool as root, or restored a backup without "
        "owners.",
        "Nothing on disk. Writers of kafkalog keep the owner of what they replace.",
        (
            BrokerStep(f"find {LOG_DIR} ! -user kafka -ls", "lists files that belong to another user"),
            BrokerStep(f"kafkalog ls {LOG_DIR}", "names the entries that cannot be read"),
        ),
    ),
    BrokerMessage(
        "map-failed",
        texts_in(JAVA, "Map failed"),
        "The broker maps each index of each segment into memory, and the kernel refused one more. The limit is "
        "vm.max_map_count, 65530 by default: about 30,000 segments. More memory for Java does not help.",
        "Nothing on disk. The log directory goes offline, and the broker may not start until the limit is higher.",
        (
            LIST,
            BrokerStep("cat /proc/sys/vm/max_map_count", "prints the limit. sysctl -w vm.max_map_count=262144 sets it"),
        ),
    ),
    BrokerMessage(
        "file-vanished",
        texts_in(JAVA, "java.nio.file.NoSuchFileException: {}"),
        "A file was removed under a running broker: by hand, by a job that cleans /tmp, or by a second process that "
        "uses the directory. The broker takes the log directory offline.",
        "The records of a removed .log file. The broker still holds the file open until it stops: copy it from "
        "/proc/PID/fd before that.",
        (LOOK, BrokerStep(f"fuser -v {LOG_DIR}/.lock", "names the process that uses the directory")),
        ("offset-index-missing", "time-index-missing"),
    ),
    BrokerMessage(
        "log-dir-offline",
        (
            *texts_in("LogManager", "Stopping serving logs in dir {}"),
            *texts_in("LocalLog", "The log dir {} is already offline due to a previous IO exception."),
            *texts_in(
                "LogManager",
                "Logs for partitions {} are offline and logs for future partitions {} are offline due to failure on "
                "log directory {}",
                "Shutdown broker because all log dirs in {} have failed",
            ),
        ),
        "An I/O error made the broker give up a log directory. The first error above this line is the cause: look for "
        "the message before it. The directory comes back only with a restart.",
        "All its partitions are unavailable on this broker. Their records are on the disk, as far as the disk returns "
        "them.",
        (LOOK, AS_BROKER),
    ),
    BrokerMessage(
        "flush-failed",
        (
            *texts_in(
                "UnifiedLog", "Error while flushing log for {} in dir {} with offset {} ({}) and recovery point {}"
            ),
            *texts_in(
                "LocalLog",
                "Error while rolling log segment for {} in dir {}",
                "Error while deleting segments for {} in dir {}",
            ),
            *texts_in("UnifiedLog", "Error while renaming dir for {} in dir {}"),
        ),
        "fsync failed. After a failed fsync, the kernel may have dropped the pages that were not written, and a later "
        "fsync can succeed without them.",
        "Records after the recovery point may be missing in the file although the broker acknowledged them.",
        (
            LOOK,
            BrokerStep(AGAINST_COPY, "compares with another replica batch by batch"),
        ),
    ),
)

ABOUT_RETENTION = (
    BrokerMessage(
        "deleting-segment-by-time",
        texts_in(
            "UnifiedLog",
            "Deleting segment {} due to log retention time {}ms breach based on the largest record timestamp in "
            "the segment",
            "Deleting segment {} due to log retention time {}ms breach based on the last modified time of the segment",
            "Deleting segment {} due to log retention size {} breach. Log size after deletion will be {}.",
            "Deleting segments due to log start offset {} breach: {}",
        ),
        "Retention removed a segment. That is the topic's setting at work. If it is a surprise, producers send "
        "timestamps in seconds, or retention.ms is in hours: both make segments look old.",
        "The records of the segment. The files stay as .deleted for file.delete.delay.ms (one minute by default).",
        (
            BrokerStep(
                f"kafkalog retain {PARTITION} {BROKER_CONFIG} --dry-run --explain",
                "shows for every segment by which setting and when it is removed. It changes nothing",
            ),
            BrokerStep(f"kafkalog verify {PARTITION} --level deep", "finds timestamps in the wrong unit"),
        ),
        ("timestamp-unit",),
    ),
    BrokerMessage(
        "future-timestamps",
        texts_in("UnifiedLog", "{} contains future timestamp(s), making it ineligible to be deleted"),
        "A segment holds a timestamp in the future, so that retention by time does not remove it, nor any segment "
        "after it. A producer's clock is wrong, or it sends microseconds.",
        "The disk fills.",
        (
            BrokerStep(
                f"kafkalog lookup-time {PARTITION} --max-timestamp", "finds the record with the largest timestamp"
            ),
            BrokerStep(
                f"kafkalog retain {PARTITION} {BROKER_CONFIG} --config retention.bytes=1073741824 --dry-run --explain",
                "shows what retention by size removes, which does not look at timestamps. It changes nothing",
            ),
        ),
        ("future-timestamp", "timestamp-unit"),
    ),
    BrokerMessage(
        "log-cleaner-failed",
        (
            *texts_in(
                "LogCleaner$CleanerThread",
                "Unexpected exception thrown when cleaning log {}. Marking its partition ({}) as uncleanable",
                "Failed to clean up log for {} in dir {} due to IOException",
            ),
            *texts_in(
                "Cleaner",
                "Log segment may be corrupt, batch size {} > {} bytes left in segment for {}",
                "Failed to read from segment {} of partition {} while loading offset map",
            ),
        ),
        "The cleaner met a batch that it cannot read and gave the partition up until the broker starts again. The "
        "log is no longer compacted, and it grows. For __consumer_offsets this ends in slow loading and a full "
        "disk.",
        "No record yet. Consumers that reach the batch fail there, too.",
        (
            LEVEL,
            BrokerStep(
                f"kafkalog compact {PARTITION} {BROKER_CONFIG} --dry-run --estimate",
                "shows how much of the log is dirty",
            ),
            SALVAGE,
        ),
        ("crc-mismatch", "decompression-failed"),
    ),
    BrokerMessage(
        "cleaner-buffer-too-small",
        texts_in(
            "Cleaner",
            "offset map is too small to fit in even a single message, so log cleaning will never make progress. "
            "You can increase log.cleaner.dedupe.buffer.size or decrease log.cleaner.threads",
            "This log contains a message larger than maximum allowable size of {}.",
        ),
        "The cleaner's buffers cannot hold what the log has: too few bytes for its map of keys, or a batch larger than "
        "message.max.bytes of today.",
        "The log grows until the setting is changed.",
        (
            BrokerStep(f"kafkalog dump-log {PARTITION} --format json", "prints the size of each batch"),
            BrokerStep(
                f"kafkalog compact {PARTITION} {BROKER_CONFIG} --dry-run --estimate",
                "cleans with its own buffers, on a dry run",
            ),
        ),
    ),
    BrokerMessage(
        "cleaner-checkpoint-reset",
        texts_in(
            "LogCleanerManager",
            "Resetting first dirty offset of {} to log start offset {} since the checkpointed offset {} is invalid.",
            "The last checkpoint dirty offset for partition {} is {}, which is larger than the log end offset {}. "
            "Resetting to the log start offset {}.",
            "Failed to access checkpoint file {} in dir {}",
        ),
        "cleaner-offset-checkpoint does not fit the log: the log was truncated, restored from a backup, or started "
        "later. The cleaner begins again at the log's start.",
        "Nothing: the next cleaning takes longer.",
        (
            BrokerStep(
                f"kafkalog dump-index {LOG_DIR}/cleaner-offset-checkpoint", "prints the lines of the checkpoint"
            ),
            LOOK_PARTITION,
        ),
        ("cleaner-offset-beyond-end",),
    ),
    BrokerMessage(
        "invalid-messages-during-compaction",
        texts_in("LogCleaner$CleanerThread", "\tFound {} invalid messages during compaction."),
        "The cleaner met records without a key in a compacted topic, written before the topic was compacted. It drops "
        "them.",
        "The records without a key.",
        (
            BrokerStep(
                f"kafkalog read {PARTITION} --print offset,key --max-records 100", "prints keys; null is a missing key"
            ),
        ),
    ),
)

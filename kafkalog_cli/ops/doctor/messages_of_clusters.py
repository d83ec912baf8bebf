"""The lines that a broker prints about replication, metadata and coordinators."""

from kafkalog_cli.ops.doctor.broker_message import (
    AGAINST_COPY,
    CHECKPOINTS,
    COPY,
    LOG_DIR,
    LOOK,
    LOOK_PARTITION,
    METADATA_DIR,
    PARTITION,
    BrokerMessage,
    BrokerStep,
    texts_in,
)

ABOUT_REPLICATION = (
    BrokerMessage(
        "truncating-below-high-watermark",
        (
            *texts_in("UnifiedLog", "Truncating {}{} to offset {} below high watermark {}"),
            *texts_in("AbstractFetcherThread", "Truncating partition {} with {} due to leader epoch and offset {}"),
        ),
        "A follower cuts its log to agree with the leader. Below the high watermark, that means that acknowledged "
        "records are cut off: an unclean leader election took place, or the leader lost its disk.",
        "The records after the offset. They may exist nowhere else: stop the follower and copy the partition before "
        "it truncates more.",
        (
            BrokerStep(f"cp -a --reflink=auto {PARTITION} {COPY}", "keeps the records"),
            BrokerStep(AGAINST_COPY, "shows where the replicas part"),
        ),
        ("high-watermark-beyond-end",),
    ),
    BrokerMessage(
        "truncate-fully",
        texts_in(
            "AbstractFetcherThread",
            "Truncate fully and reset fetch offset for partition {} from {} to the current leader's start offset {} "
            "because the local replica's end offset is smaller than the current leader's start offsets.",
        ),
        "The follower was away for long. Retention on the leader has removed every record that the follower has. "
        "The follower drops its log and fetches the leader's.",
        "Nothing that the cluster still keeps.",
        (LOOK_PARTITION,),
    ),
    BrokerMessage(
        "non-monotonic-high-watermark",
        texts_in("UnifiedLog", "Non-monotonic update of high watermark from {} to {}"),
        "The high watermark of a partition goes back: the log was truncated, or replication-offset-checkpoint is older "
        "than the log.",
        "Consumers may see records twice that lie between both offsets.",
        (CHECKPOINTS, LOOK_PARTITION),
        ("high-watermark-beyond-end",),
    ),
    BrokerMessage(
        "epoch-entries-truncated",
        texts_in(
            "LeaderEpochFileCache",
            "New epoch entry {} caused truncation of conflicting entries {}. Cache now contains {} entries.",
        ),
        "A new leader epoch does not fit the entries of leader-epoch-checkpoint. The checkpoint is older or newer than "
        "the log: a restore mixed files of two times.",
        "Followers find the place where logs part by these entries. With wrong entries they may truncate too little "
        "or too much.",
        (BrokerStep(f"kafkalog dump-index {PARTITION}/leader-epoch-checkpoint", "prints the entries"), LOOK_PARTITION),
        ("leader-epochs-wrong", "epoch-goes-back"),
    ),
    BrokerMessage(
        "out-of-order-sequence",
        texts_in(
            "ProducerAppendInfo",
            "Out of order sequence number for producer {} at offset {} in partition {}: {} (incoming seq. number), "
            "{} (current end sequence number)",
            "Out of order sequence number for producer {} at offset {} in partition {}: {} (incoming seq. number), "
            "{} (earliest seen sequence)",
        ),
        "The leader refuses a batch of an idempotent producer: batches before it are not in the log. The producer gave "
        "them up, or the log lost them by a truncation or an unclean leader election.",
        "The batches between both numbers, if a broker had acknowledged them. Another replica may have them.",
        (
            LOOK_PARTITION,
            BrokerStep(AGAINST_COPY, "shows where the replicas part"),
        ),
        ("high-watermark-beyond-end",),
    ),
    BrokerMessage(
        "abandoned-future-log",
        texts_in(
            "LogManager",
            "Attempting to recover abandoned future log for {} at {}",
            "Attempting to recover abandoned future log for {} at {} and removing {}",
        ),
        "A move between log directories was finished on one side only when the broker stopped. The broker takes the "
        "-future directory as the partition.",
        "The older directory is removed. Compare both before the start if you are not sure which is complete.",
        (BrokerStep(f"kafkalog ls {LOG_DIR}", "lists -future directories with their offsets"), LOOK),
    ),
)

ABOUT_METADATA = (
    BrokerMessage(
        "quorum-state-unreadable",
        texts_in(
            "FileQuorumStateStore",
            "Error while reading the Quorum status from the file {}",
            "Quorum state data version ({}) is greater than the supported version ({})",
        ),
        "The file quorum-state of the metadata log is damaged or was written by a newer Kafka. It holds the epoch and "
        "the vote of this controller.",
        "Without it, a controller may vote twice in one epoch. Restore it, or remove it only on a controller that the "
        "quorum can spare.",
        (BrokerStep(f"kafkalog dump-index {LOG_DIR}/__cluster_metadata-0/quorum-state", "prints the file"), LOOK),
        ("quorum-state-damaged",),
    ),
    BrokerMessage(
        "metadata-record-fault",
        (
            *texts_in("MetadataBatchLoader", "Error loading metadata log record from offset {}"),
            *texts_in("MetadataLoader", "Error loading metadata log record {} in snapshot at offset {}"),
        ),
        "A node cannot apply a record of the metadata log: the log is damaged, is of another cluster or a newer Kafka, "
        "or a bug wrote the record. A fatal fault ends the process.",
        "The partitions are not touched. The metadata of a broker can be fetched again from the controllers; that of "
        "the last controller cannot.",
        (
            BrokerStep(f"kafkalog cluster {METADATA_DIR}", "prints the state that the log gives. It changes nothing"),
            BrokerStep(f"kafkalog verify {METADATA_DIR} --level deep", "reads every record of the metadata log"),
        ),
        ("crc-mismatch", "invalid-record"),
    ),
    BrokerMessage(
        "metadata-snapshot-missing",
        (
            *texts_in(
                "KafkaMetadataLog$, KafkaRaftLog",
                "Inconsistent snapshot state: there must be a snapshot at an offset larger then the current log start "
                "offset {}, but the latest snapshot is {}",
            ),
            *texts_in(
                "KafkaRaftLog",
                "Inconsistent snapshot state: there must be a snapshot at an offset larger than the current log start "
                "offset {}, but the latest snapshot is {}",
            ),
        ),
        "The metadata log begins after offset 0, and the snapshot that stands for its removed part is not there.",
        "The node cannot build its metadata. With other controllers in the quorum, it can fetch a snapshot from them.",
        (BrokerStep(f"kafkalog ls {LOG_DIR}", "lists segments and snapshots of __cluster_metadata-0"), LOOK),
    ),
    BrokerMessage(
        "metadata-directory-io-error",
        texts_in("MetaPropertiesEnsemble", "Encountered I/O error in metadata log directory {}. Cannot continue."),
        "The directory that holds the metadata log cannot be read. A broker can lose other log directories and go on; "
        "this directory it needs.",
        "The other directories are not touched. A broker can start with an empty metadata directory and fetch the "
        "metadata from the controllers; a controller must not, unless the quorum can spare it.",
        (BrokerStep("dmesg --level=err", "shows the kernel's errors of the device"), LOOK),
    ),
    BrokerMessage(
        "coordinator-load-failed",
        (
            *texts_in(
                "CoordinatorRuntime$CoordinatorContext", "Failed to load metadata from {} with epoch {} due to {}."
            ),
            *texts_in("CoordinatorLoaderImpl", "Deserializing record {} from {} failed."),
        ),
        "The coordinator cannot read a partition of __consumer_offsets, __transaction_state or __share_group_state: a "
        "damaged batch, or a record of a newer Kafka.",
        "All groups or transactions of that partition are unavailable: consumers cannot join or commit.",
        (
            LOOK,
            BrokerStep(
                f"kafkalog dump-log {LOG_DIR}/__consumer_offsets-0 --offsets-decoder",
                "prints the records of the group coordinator, and names the record that cannot be read",
            ),
        ),
        ("crc-mismatch", "invalid-record"),
    ),
)

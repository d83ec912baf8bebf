"""The lines that a broker prints when it starts on its log directories."""

from kafkalog_cli.ops.doctor.broker_message import (
    AGAINST_COPY,
    AS_BROKER,
    COPY,
    LIST,
    LOG_DIR,
    LOOK,
    LOOK_PARTITION,
    META,
    OTHER_DIR,
    PARTITION,
    TOPIC_ID,
    BrokerMessage,
    BrokerStep,
    texts_in,
)

AT_START = (
    BrokerMessage(
        "lock-file-held",
        texts_in(
            "LogManager",
            "Failed to acquire lock on file .lock in {}. A Kafka instance in another process or thread is using "
            "this directory.",
        ),
        "Another process holds the lock of this log directory. It is a broker that has not ended yet, a second broker "
        "with the same log.dirs, or a kafkalog command that changes files. The file .lock itself is always there. Only "
        "the lock on it counts, and the kernel drops that lock when its process ends: removing the file does not help.",
        "Nothing. Two processes that write into one log directory would destroy it, and this lock prevents that.",
        (
            BrokerStep(f"fuser -v {LOG_DIR}/.lock", "names the process"),
            BrokerStep(f"kafkalog verify {LOG_DIR}", "reads beside a running broker without taking the lock"),
        ),
    ),
    BrokerMessage(
        "no-meta-properties",
        (
            *texts_in(
                "KafkaRaftServer$",
                "No `meta.properties` found in {} (have you run `kafka-storage.sh` to format the directory?)",
            ),
            *texts_in("MetaPropertiesEnsemble", "No readable meta.properties files found."),
            *texts_in("MetaPropertiesEnsemble$Loader", "Error while reading meta.properties file {}"),
        ),
        "The broker found no meta.properties in its log directories. On a broker that has run before, the usual cause "
        "is a disk that is not mounted: the broker then looks at the empty mount point.",
        "Do not format the directory before you know that the disk is mounted. A formatted directory gets a new "
        "identity, and the broker starts with no data.",
        (
            BrokerStep(f"findmnt --target {LOG_DIR}", "shows which file system the path lies on"),
            LIST,
            BrokerStep(
                f"kafkalog verify {LOG_DIR}",
                "says whether the logs below the directory are whole, with or without meta.properties",
            ),
        ),
        ("meta-properties-missing",),
    ),
    BrokerMessage(
        "invalid-cluster-id",
        texts_in("MetaPropertiesEnsemble", "Invalid cluster.id in: {}. Expected {}, but read {}"),
        "The log directories of this broker carry the cluster ids of two clusters. A disk of another cluster was "
        "mounted, or one directory was formatted again with another cluster id.",
        "The partitions below the wrong directory belong to another cluster. Do not edit the cluster id by hand: the "
        "broker would serve them under topics of the same names.",
        (
            BrokerStep(
                f"kafkalog dump-index {LOG_DIR}/meta.properties",
                "prints cluster id, node id and directory id of a directory in log.dirs",
            ),
            LIST,
        ),
        ("meta-properties-differ",),
    ),
    BrokerMessage(
        "stored-node-id",
        texts_in(
            "MetaPropertiesEnsemble",
            "Stored node id {} doesn't match previous node id {} in {}. If you moved your data, make sure your "
            "configured node id matches.",
        ),
        "The directory was written by a broker with another node id. Usually disks were swapped between brokers, or "
        "node.id in server.properties was changed.",
        "If you remove the data, as the rest of the line suggests, its replicas are lost on this broker.",
        (META, LIST),
        ("meta-properties-differ",),
    ),
    BrokerMessage(
        "duplicate-directory-id",
        texts_in("MetaPropertiesEnsemble", "Duplicate directory ID {} found. It was the ID of {}, but also of {}"),
        "Two log directories of this broker have the same directory.id. One of them is a copy of the other, with its "
        "meta.properties.",
        "The partitions may lie in both directories, and one copy is older. Find the newer copy before you change "
        "either directory.",
        (
            META,
            BrokerStep(
                f"kafkalog verify {LOG_DIR} --against {OTHER_DIR}",
                "compares the partitions of both directories batch by batch, and says which copy has more",
            ),
        ),
    ),
    BrokerMessage(
        "unexpected-metadata-location",
        texts_in(
            "KafkaRaftServer$",
            "Found unexpected metadata location in data directory `{}` (the configured metadata directory is {}).",
        ),
        "The directory __cluster_metadata-0 lies in a log directory that is not metadata.log.dir. The setting was "
        "changed, or the order of log.dirs was: without metadata.log.dir, the first directory holds the metadata log.",
        "A controller that starts with an empty metadata log has lost its vote's history. Set metadata.log.dir to the "
        "directory that holds the log; do not remove the log.",
        (
            BrokerStep(f"kafkalog ls {LOG_DIR}", "shows where __cluster_metadata-0 lies and its last offset"),
            BrokerStep(
                f"kafkalog verify {LOG_DIR}", "checks the metadata log and its snapshots with the other partitions"
            ),
        ),
    ),
    BrokerMessage(
        "log-directory-not-readable",
        texts_in(
            "LogManager",
            "{} is not a readable log directory.",
            "Failed to create or validate data directory {}",
            "Shutdown broker because none of the specified log dirs from {} can be created or validated",
        ),
        "The broker cannot read the path: it is a file, its permissions exclude the broker's user, or the file system "
        "answers with errors. Tools that ran as root leave files that belong to root, with the same effect.",
        "Nothing is lost on disk by this message.",
        (
            BrokerStep(f"ls -ld {LOG_DIR}", "shows owner and permissions"),
            BrokerStep(f"kafkalog ls {LOG_DIR}", "lists what can be read, and names each entry that cannot"),
        ),
    ),
    BrokerMessage(
        "error-loading-log-dir",
        texts_in(
            "LogManager",
            "Error while loading log dir {}",
            "There was an error in one of the threads during logs loading",
        ),
        "Loading failed in one partition. An I/O error takes the log directory offline, and the broker goes on with "
        "its others. Every other error ends the broker. The lines below this line name the cause.",
        "The broker does not start until the cause is mended, so every partition of the directory is unavailable.",
        (LOOK, AS_BROKER),
    ),
    BrokerMessage(
        "foreign-directory",
        texts_in(
            "LocalLog",
            "Found directory {}, '{}' is not in the form of topic-partition or topic-partition.uniqueId-delete (if "
            "marked for deletion).",
        ),
        "A directory below log.dirs is not of Kafka: lost+found of a disk that is mounted there, or a directory that "
        "somebody made. The broker does not start.",
        "Nothing. Move the directory out, or let log.dirs be a directory below the mount point.",
        (LOOK,),
        ("foreign-directory",),
    ),
    BrokerMessage(
        "duplicate-log-directories",
        texts_in(
            "LogManager",
            "Duplicate log directories for {} are found in both {} and {}. It is likely because log directory "
            "failure happened while broker was replacing current replica with future replica. Recover broker from "
            "this failure by manually deleting one of the two directories for this partition.",
            "Duplicate log directories found: {}, {}",
        ),
        "The same partition lies in two log directories of this broker. A move between disks "
        "(kafka-reassign-partitions with log directories) was interrupted, or a directory was copied by hand.",
        "The broker asks you to delete a directory. The two copies may differ: compare them first, and move the worse "
        "copy away in place of deleting it.",
        (
            BrokerStep(AGAINST_COPY, "compares both copies batch by batch, and says which has more"),
            BrokerStep(f"kafkalog ls {PARTITION} {COPY}", "shows first and last offset of both copies"),
        ),
        ("twin-directories",),
    ),
    BrokerMessage(
        "no-clean-shutdown",
        texts_in("LogManager", "Recovering {} logs from {} since no clean shutdown file was found"),
        "The broker did not stop cleanly: a kill, a crash, a power cut. It now reads every segment from the recovery "
        "point on, checks each checksum and rebuilds indexes. This takes minutes on large disks.",
        "Incomplete batches at the end of a log are cut off. That is normal. At the first damaged batch in the middle "
        "of a log, the broker cuts the log there and removes all later segments.",
        (
            BrokerStep(
                f"kafkalog recover {LOG_DIR} --like-broker --dry-run",
                "says before the start what the broker will cut off, partition by partition",
            ),
            BrokerStep(
                f"kafkalog recover {LOG_DIR}",
                "repairs before the start, keeps whatever it cuts off, and refuses where a broker would remove "
                "valid batches",
            ),
        ),
        ("torn-tail", "bad-tail-batch", "zero-tail"),
    ),
    BrokerMessage(
        "clean-shutdown-found",
        texts_in("LogManager", "Skipping recovery of {} logs from {} since clean shutdown file was found"),
        "The broker found .kafka_cleanshutdown and trusts the logs as they are. It does not read their batches. "
        "Somebody who changes files by hand between stop and start, or a disk that lies, is not noticed here.",
        "Damage stays in the log until a consumer or a follower reads it.",
        (LOOK,),
    ),
    BrokerMessage(
        "stray-partition",
        (
            *texts_in(
                "LogManager",
                "Log in {} marked stray and renamed to {}",
                "Loaded stray log: {}",
                "Found stray log dir {}: the topicId {} does not exist in the metadata image.",
                "Found stray log dir {}: the current replica assignment {} does not contain the local brokerId {}.",
            ),
            *texts_in(
                "LogManager, BrokerMetadataPublisher", "The topicId does not exist in {}, treat it as a stray log."
            ),
        ),
        "The cluster's metadata does not give this partition, with this topic id, to this broker. The broker renamed "
        "the directory to NAME.UUID-stray and does not serve it. That happens after a topic was deleted and created "
        "again while the broker was down, and after the metadata log was lost or restored from an old backup.",
        "The directory stays on the disk until you remove it. If the metadata is wrong, it may hold the last copy.",
        (
            BrokerStep(f"kafkalog ls {LOG_DIR}", "lists -stray directories with their offsets"),
            BrokerStep(f"kafkalog verify {LOG_DIR}", "explains each, and names the way back"),
        ),
        ("marked-directory", "topic-id-differs"),
    ),
    BrokerMessage(
        "no-topic-id",
        texts_in(
            "LogManager", "The log dir {} does not have a topic ID, which is not allowed when running in KRaft mode."
        ),
        "The directory has no partition.metadata. It was written by a broker before 2.8 and never upgraded, or the "
        "file was not copied with the others.",
        "The records are whole. The broker refuses the directory only because it does not know the topic.",
        (LOOK_PARTITION, TOPIC_ID),
        ("partition-metadata-missing",),
    ),
    BrokerMessage(
        "inconsistent-topic-id",
        (
            *texts_in(
                "LogManager",
                "Tried to assign topic ID {} to log for topic partition {},but log already contained topic ID {}",
            ),
            *texts_in("PartitionMetadataFile", "Tried to record topic ID {} to file but had already recorded {}"),
        ),
        "The log on disk has the id of another topic with the same name: the topic was deleted and created again, or "
        "the directory comes from another cluster.",
        "The records belong to the former topic. Deleting partition.metadata lets the broker serve them as the new "
        "topic's, which is hardly ever right.",
        (
            BrokerStep(f"kafkalog dump-index {PARTITION}/partition.metadata", "prints the id on disk"),
            BrokerStep(f"kafkalog verify {LOG_DIR}", "compares every id with the metadata log"),
        ),
        ("topic-id-differs",),
    ),
    BrokerMessage(
        "partition-metadata-unreadable",
        (
            *texts_in("PartitionMetadataFile", "Error while reading partition metadata file {}"),
            *texts_in(
                "PartitionMetadataReadBuffer",
                "Invalid topic ID in partition metadata file ({})",
                "Unrecognized version of partition metadata file ({}): {}",
                "Malformed line in partition metadata file [{}]: {}",
            ),
        ),
        "The file partition.metadata is cut short, empty or not text. A full disk or a power cut leaves such files.",
        "The broker takes the whole log directory offline for this small file. The records are not touched.",
        (LOOK_PARTITION, TOPIC_ID),
        ("partition-metadata-damaged",),
    ),
)

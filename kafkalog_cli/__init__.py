"""kafkalog: fsck, dump, retention, compaction and analytics for Apache Kafka log directories."""

__version__ = "0.1.0"

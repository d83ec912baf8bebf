"""Messages of Kafka 0.7 (`.kafka` files): no offsets in the file, CRC over the payload only."""

from kafkalog_cli.format.layout import Field, Layout

MESSAGE_SEVEN_MAGIC0 = Layout(
    "Message of 0.7, magic 0",
    "kafka.message.Message (0.7.2)",
    Field("size", "i", "bytes after this field, at least 5"),
    Field("magic", "b", "0"),
    Field("crc", "I", "CRC-32 (IEEE) of the payload"),
)

MESSAGE_SEVEN_MAGIC1 = Layout(
    "Message of 0.7, magic 1",
    "kafka.message.Message (0.7.2)",
    Field("size", "i", "bytes after this field, at least 6"),
    Field("magic", "b", "1"),
    Field("attributes", "b", "bits 0-1 codec: 0 none, 1 gzip, 2 snappy"),
    Field("crc", "I", "CRC-32 (IEEE) of the payload"),
)

SEVEN_CODEC_MASK = 0x03
MINIMUM_SEVEN_SIZE = 5

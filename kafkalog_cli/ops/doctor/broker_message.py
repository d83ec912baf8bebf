"""A line of a broker's log that sends people to its disk: its meaning, and the commands that help."""

from dataclasses import dataclass

LOG_DIR = "/var/lib/kafka/data"
PARTITION = f"{LOG_DIR}/orders-0"
METADATA_DIR = "/var/lib/kafka/metadata"
OTHER_DIR = "/var/lib/kafka/copy"
COPY = f"{OTHER_DIR}/orders-0"
BROKER_CONFIG = "--broker-config /etc/kafka/server.properties"
"""The paths in the commands of the pages. `doctor` puts those of the disk at hand in their place."""


@dataclass(frozen=True, slots=True)
class BrokerText:
    """A line of a broker's log as Kafka's source has it, `{}` for each value.

    `where`: the simple name of its class; two where the class of Kafka 4.3 is not that of 4.2.
    """

    text: str
    where: str


@dataclass(frozen=True, slots=True)
class BrokerStep:
    """A command to run, and what it shows or does."""

    command: str
    why: str


@dataclass(frozen=True, slots=True)
class BrokerMessage:
    """A page: the texts that lead to it, their meaning, what is at stake, and the commands, the safest first."""

    slug: str
    texts: tuple[BrokerText, ...]
    meaning: str
    at_stake: str
    steps: tuple[BrokerStep, ...]
    findings: tuple[str, ...] = ()


OPERATING_SYSTEM = "the operating system"
"""The `where` of a text that is an error of the operating system, in any line."""
JAVA = "Java"
"""The `where` of a text that is an error of Java's own library, in any line."""

AGAINST_COPY = f"kafkalog verify {PARTITION} --against {COPY}"
"""A command of which each page says in its own words what it shows."""

LOOK = BrokerStep(
    f"kafkalog verify {LOG_DIR}", "lists every damaged file, with a next step for each. It changes nothing"
)
LOOK_PARTITION = BrokerStep(f"kafkalog verify {PARTITION}", "says what is wrong in this partition. It changes nothing")
TRY = BrokerStep(f"kafkalog recover {PARTITION} --dry-run", "prints what a repair would do. It changes nothing")
RECOVER = BrokerStep(
    f"kafkalog recover {PARTITION}",
    "repairs the partition while the broker is stopped, and keeps whatever it cuts off: `kafkalog undo` puts it back",
)
INDEXES = BrokerStep(
    f"kafkalog recover {PARTITION} --indexes-only",
    "rebuilds the indexes from the log while the broker is stopped, and leaves the log as it is",
)
SALVAGE = BrokerStep(
    f"kafkalog recover {PARTITION} --salvage ./salvaged",
    "copies every readable batch to ./salvaged, and leaves the damaged partition as it is",
)
LEVEL = BrokerStep(f"kafkalog verify {PARTITION} --level deep", "decompresses every batch and reads every record")
CHECKPOINTS = BrokerStep(
    f"kafkalog dump-index {LOG_DIR}/recovery-point-offset-checkpoint {LOG_DIR}/log-start-offset-checkpoint "
    f"{LOG_DIR}/replication-offset-checkpoint",
    "prints the lines of the checkpoints, and names each malformed line",
)
AS_BROKER = BrokerStep(
    f"kafkalog recover {LOG_DIR} --like-broker --dry-run",
    "prints for each partition what the broker will do at its next start. It changes nothing",
)
LIST = BrokerStep(f"kafkalog ls {LOG_DIR}", "lists partitions, segments, offsets, checkpoints and leftovers")
FILLS = BrokerStep(f"kafkalog ls {LOG_DIR} --topics --sort size", "shows which topics fill the disk")
META = BrokerStep(f"kafkalog dump-index {LOG_DIR}/meta.properties", "prints the identity that this directory has")
TOPIC_ID = BrokerStep(
    f"kafkalog recover {PARTITION} --metadata {METADATA_DIR}",
    "writes partition.metadata with the topic's id of a metadata log: metadata.log.dir of a controller, or its copy",
)


def texts_in(where: str, *texts: str) -> tuple[BrokerText, ...]:
    """Return the texts of a message that one class of Kafka prints."""
    return tuple(BrokerText(text, where) for text in texts)

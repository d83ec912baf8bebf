"""The committed offsets of groups: those of `__consumer_offsets` on the disk, and those committed while serving."""

from collections.abc import Callable
from threading import Lock, Thread
from typing import NamedTuple

from kafkalog_cli.errors import ExitCode, KafkalogError, Refused
from kafkalog_cli.format.fault import unreadable
from kafkalog_cli.format.internal_topics.records import CONSUMER_OFFSETS
from kafkalog_cli.ops.coordinators import CoordinatorTopic, Copies
from kafkalog_cli.ops.serve.epochs import NO_EPOCH
from kafkalog_cli.ops.session.observer import Note
from kafkalog_cli.ops.tables.coordinator_log import CommittedOffset, committed_offsets

MOST_METADATA_BYTES = 4096
"""The largest metadata of a commit (offset.metadata.max.bytes)."""
_MOST_OFFSETS = 1_000_000


class OffsetKey(NamedTuple):
    """A group id, a topic and a partition."""

    group: str
    topic: str
    partition: int


class Commit(NamedTuple):
    """A committed offset. `time_ms` is when it was committed, in epoch ms."""

    offset: int
    leader_epoch: int
    metadata: str
    time_ms: int


class CommittedStore:
    """Offsets by group, topic and partition. The offsets on the disk are loaded in another thread.

    A commit while serving hides the offset on the disk, and is in memory only. `decoding` is held while records are
    decoded.
    """

    def __init__(self, log_dirs: Copies, report: Callable[[Note], None], decoding: Lock) -> None:
        self._log_dirs = log_dirs
        self._report = report
        self._decoding = decoding
        self._held: dict[OffsetKey, Commit] = {}
        self._new: dict[OffsetKey, Commit] = {}
        self._changing = Lock()
        self.loading = Thread(target=self._load, name="kafkalog-load-offsets", daemon=True)

    @property
    def is_loading(self) -> bool:
        """Whether the offsets on the disk are not all known yet."""
        return self.loading.is_alive()

    def wait(self, seconds: float) -> bool:
        """Wait until the offsets are loaded; return whether they are."""
        self.loading.join(seconds)
        return not self.is_loading

    def of_group(self, group_id: str) -> dict[tuple[str, int], Commit]:
        """Return the offsets of a group by topic and partition."""
        with self._changing:
            both = {**self._held, **self._new} if self._new else self._held
            return {(topic, number): one for (group, topic, number), one in both.items() if group == group_id}

    def groups(self) -> set[str]:
        """Return the ids of the groups that have offsets."""
        with self._changing:
            return {key[0] for key in self._held} | {key[0] for key in self._new}

    def commit(self, commits: dict[OffsetKey, Commit]) -> None:
        """Commit offsets. Raises Refused for too many offsets: none of them is committed then."""
        with self._changing:
            if len(self._new) + len(commits) > _MOST_OFFSETS:
                raise Refused(path=CONSUMER_OFFSETS, reason=f"more than {_MOST_OFFSETS} offsets were committed")
            self._new |= commits

    def _load(self) -> None:
        try:
            topic = CoordinatorTopic(self._log_dirs, CONSUMER_OFFSETS)
            for number in topic.numbers:
                with self._decoding:
                    _, offsets = topic.load(number, committed_offsets)
                with self._changing:
                    self._held |= dict(map(_commit_on_disk, offsets))
        except (KafkalogError, OSError) as error:
            message = f"committed offsets are incomplete: {unreadable(error).message}"
            self._report(Note("unreadable", message, CONSUMER_OFFSETS, is_error=True, exit_code=ExitCode.PARTIAL))
        for note in self._log_dirs.take_notes():
            self._report(note)


def _commit_on_disk(found: CommittedOffset) -> tuple[OffsetKey, Commit]:
    epoch = NO_EPOCH if found.leader_epoch is None else found.leader_epoch
    time_ms = -1 if found.commit_timestamp is None else found.commit_timestamp
    key = OffsetKey(found.group_id, found.topic, found.partition)
    return key, Commit(found.offset, epoch, found.metadata, time_ms)

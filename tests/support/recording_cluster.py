"""A cluster in memory for replay, and a life that ends at any call, as by kill -9."""

from contextlib import contextmanager

from tests.support.product import ClusterError, ClusterTopic

UNDER_WAY = 3
"""Records that a sender has sent before the first of them is acknowledged."""


class Killed(BaseException):
    """The process has ended: nothing of it runs any more."""


class Life:
    """Ends at the call of this number, None: never. `calls` counts them."""

    def __init__(self, end=None):
        self.end, self.calls = end, 0

    def step(self):
        self.calls += 1
        if self.end is not None and self.calls >= self.end:
            raise Killed


class MortalFilesystem:
    """Passes calls on to `below` while the life lasts."""

    STEPS = ("create", "rename", "sync_directory", "unlink")

    def __init__(self, below, life):
        self._below, self._life = below, life

    def __getattr__(self, name):
        found = getattr(self._below, name)
        if name not in self.STEPS:
            return found

        def call(*words, **options):
            self._life.step()
            return found(*words, **options)

        return call


class RecordingCluster:
    """`logs` has the records of each partition, at the offsets from 0 on; `settings` and `groups` what was created.

    `refuses` tells which records the cluster does not take.
    """

    cluster_id = "recording"

    def __init__(self, topics=(), refuses=lambda record: False):
        self.logs, self.settings, self.groups = {}, {}, {}
        self.life, self.refuses = Life(), refuses
        for name, partitions in dict(topics).items():
            self._create(name, partitions, {})

    def _create(self, name, partitions, settings):
        self.settings[name] = dict(settings)
        self.logs.update({(name, number): [] for number in range(partitions)})

    def topic(self, name):
        partitions = sum(topic == name for topic, _ in self.logs)
        return ClusterTopic(partitions, self.settings[name]) if partitions else None

    def create_topic(self, name, partitions, settings):
        self.life.step()
        self._create(name, partitions, settings)
        self.life.step()

    def end_offset(self, topic, partition):
        return len(self.logs[topic, partition])

    def records(self, topic, partition, start, end):
        yield from list(enumerate(self.logs[topic, partition]))[start:end]

    @contextmanager
    def sender(self, topic, codec, acknowledged):
        yield _Sender(self, topic, acknowledged)

    def group_offsets(self, group_id):
        return self.groups.get(group_id, {})

    def commit(self, group_id, offsets):
        self.life.step()
        self.groups.setdefault(group_id, {}).update(offsets)
        self.life.step()


class _Sender:
    def __init__(self, cluster, topic, acknowledged):
        self._cluster, self._topic, self._acknowledged = cluster, topic, acknowledged
        self._under_way = []

    def send(self, partition, record):
        self._cluster.life.step()
        if self._cluster.refuses(record):
            self.flush()
            raise ClusterError(cluster="recording", reason="refused")
        log = self._cluster.logs[self._topic, partition]
        self._under_way.append((partition, len(log)))
        log.append(record)
        if len(self._under_way) > UNDER_WAY:
            self._acknowledge()

    def flush(self):
        while self._under_way:
            self._acknowledge()

    def _acknowledge(self):
        """Of several partitions, the last is ahead: only the order within a partition is certain."""
        self._cluster.life.step()
        last = max(partition for partition, _ in self._under_way)
        oldest = next(one for one in self._under_way if one[0] == last)
        self._under_way.remove(oldest)
        self._acknowledged(*oldest)

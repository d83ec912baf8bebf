"""Leader epochs against a literal twin of LeaderEpochFileCache, and its worked cases."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.broker.leader_epochs import LeaderEpochs
from kafkalog_cli.broker.load_error import LoadFailed
from kafkalog_cli.format.checkpoint import EpochEntry


class Twin:
    """Entries in a list, every rule spelled out."""

    def __init__(self):
        self.entries = []

    def assign(self, epoch, start):
        last = self.entries[-1] if self.entries else None
        if last and epoch == last[0] and start >= last[1]:
            return
        while self.entries and (self.entries[-1][0] >= epoch or self.entries[-1][1] >= start):
            self.entries.pop()
        self.entries.append((epoch, start))

    def from_end(self, end):
        if self.entries and self.entries[-1][1] >= end:
            while self.entries and self.entries[-1][1] >= end:
                self.entries.pop()

    def from_start(self, start):
        removed = []
        while self.entries and self.entries[0][1] <= start:
            removed.append(self.entries.pop(0))
        if removed:
            self.entries.insert(0, (removed[-1][0], start))


steps = st.lists(
    st.tuples(st.just("assign"), st.integers(0, 8), st.integers(0, 30))
    | st.tuples(st.sampled_from(["from_end", "from_start"]), st.integers(0, 30)),
    max_size=20,
)


@given(steps)
def test_epochs_change_as_in_the_plain_copy_of_the_cache(taken):
    compare_with_the_twin(taken)


def test_every_short_sequence_of_steps_is_as_in_the_plain_copy():
    offsets = range(3)
    every = [("assign", epoch, offset) for epoch in range(3) for offset in offsets]
    every += [(verb, offset) for verb in ("from_end", "from_start") for offset in offsets]
    for taken in product(every, repeat=3):
        compare_with_the_twin(taken)


def compare_with_the_twin(taken):
    epochs, twin = LeaderEpochs(), Twin()
    for verb, *arguments in taken:
        before = list(twin.entries)
        getattr(twin, verb)(*arguments)
        is_changed = verb == "from_start" and bool(before) and before[0][1] <= arguments[0]
        verb = {"from_end": "truncate_from_end", "from_start": "truncate_from_start"}.get(verb, verb)
        epochs.is_changed = False
        getattr(epochs, verb)(*arguments)
        assert epochs.is_changed == (is_changed or before != twin.entries)
        assert [tuple(entry) for entry in epochs.entries] == twin.entries
    assert LeaderEpochs.from_file(epochs.encode()).entries == epochs.entries


def test_an_entry_of_the_start_stays_its_own():
    epochs = LeaderEpochs([EpochEntry(0, 0), EpochEntry(2, 130)])
    assert not epochs.is_changed
    epochs.truncate_from_start(0)
    assert epochs.entries == [(0, 0), (2, 130)]


def test_a_checkpoint_that_a_broker_cannot_read_fails_the_load():
    for data in (b"0\n1\nx y\n", b"7\n0\n", b"0\n2\n0 0\n"):
        with pytest.raises(LoadFailed) as caught:
            LeaderEpochs.from_file(data)
        assert caught.value.java_class == "KafkaStorageException"
    with pytest.raises(LoadFailed) as caught:
        LeaderEpochs([EpochEntry(-1, 5)])
    assert caught.value.java_class == "IllegalArgumentException"

"""Records that are taken in a thread ahead: the same ones, the same errors, and no thread left behind."""

import threading
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.ops.append.columns import ROWS, RecordRun
from kafkalog_cli.ops.append.inputs import Ahead
from kafkalog_cli.ops.append.reading import NewRecord
from tests.support.product import BadInput


def run_of(number):
    return RecordRun(np.full(3, number, np.uint8), np.full((ROWS, 1), number))


def told(found):
    """What can be compared."""
    return int(found.buffer[0]) if isinstance(found, RecordRun) else found


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "kafkalog-append"]


ITEMS = st.lists(
    st.none() | st.integers(0, 255) | st.binary(max_size=2).map(lambda key: NewRecord(key, b"v")), max_size=40
)
ERRORS = st.sampled_from([None, BadInput(path="it", reason="line 7: no JSON"), OSError(5, "gone"), KeyboardInterrupt()])


@given(ITEMS, ERRORS)
def test_the_same_in_the_same_order(items, error):
    def source():
        for item in items:
            yield run_of(item) if isinstance(item, int) else item
        if error is not None:
            raise error

    found, raised = [], None
    with Ahead(source()) as ahead:
        try:
            found.extend(told(item) for item in ahead)
        except BaseException as ended:
            raised = ended
    assert found == items
    assert raised is error
    assert not threads()


@pytest.mark.parametrize("taken", [0, 1, 2, 9])
def test_who_stops_early_leaves_no_thread(taken):
    """Nor anything open."""
    closed = []

    def source():
        try:
            for number in count():
                yield run_of(number % 256)
        finally:
            closed.append(taken)

    with Ahead(source()) as ahead:
        left = iter(ahead)
        assert [told(next(left)) for _ in range(taken)] == list(range(taken))
        assert len(threads()) == (taken > 1)
    assert not threads()
    assert closed == [taken] * (taken > 0)


def test_it_does_not_run_far_ahead():
    """Memory is bounded by what waits."""
    made = []

    def source():
        for number in range(200):
            made.append(number)
            yield run_of(number)

    with Ahead(source()) as ahead:
        for at, _ in enumerate(ahead):
            assert made[-1] - at < 6


def test_what_plain_kernels_give_is_taken_where_it_is_asked_for():
    names = set()

    def source():
        for _ in range(50):
            names.add(threading.current_thread().name)
            yield NewRecord(b"k", b"v")

    with Ahead(source()) as ahead:
        assert len(list(ahead)) == 50
    assert names == {threading.current_thread().name}

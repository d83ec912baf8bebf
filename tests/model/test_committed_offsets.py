"""Offsets that a group has committed, against a slow reading of its commits and of the ends of their transactions."""

import shutil

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.commands import json_of
from tests.support.coordinator_logs import commit, commit_key, commits, coordinator_partition_at, value
from tests.support.logs import BASE_TIME_MS, TRANSACTIONAL, R, batch_v2, end_marker


def written(at, step):
    """A batch at an offset: a commit (topic, offset or None, producer or -1), or the end (producer, whether it commits)."""
    if len(step) == 2:
        return end_marker(at, BASE_TIME_MS, (step[0], 0), int(step[1]))
    topic, offset, producer = step
    record = R(at, BASE_TIME_MS, commit_key("g", topic), None if offset is None else commit(offset, BASE_TIME_MS))
    return batch_v2([record]) if producer < 0 else batch_v2([record], producer=(producer, 0, 0), bits=TRANSACTIONAL)


def held(log_dir, steps):
    coordinator_partition_at(log_dir, 0, [written(at, step) for at, step in enumerate(steps)])
    code, out, _ = json_of("groups", log_dir)
    assert code == 0
    rows = [row for one in out if one["type"] == "group" for row in one["offsets"]]
    return {row["topic"]: row["current_offset"] for row in rows if row["current_offset"] is not None}


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.sampled_from([-1, 1, 2])),
        st.tuples(st.sampled_from([1, 2]), st.booleans()),
    ),
    max_size=12,
)


@given(STEPS)
@example([("a", 1, 1), ("a", 2, -1), (1, True)])  # a later commit stays, though the transaction ends behind it
@example([("a", 2, -1), ("a", 1, 1), (1, True)])
@example([("a", 1, 1), (2, True)])
def test_the_last_commit_of_no_transaction_or_a_committed_one_counts(tmp_path_factory, steps):
    wanted = {}
    for at, step in enumerate(steps):
        if len(step) == 2:
            continue
        ends = (later[1] for later in steps[at:] if len(later) == 2 and later[0] == step[2])
        if step[2] == -1 or next(ends, False):
            wanted[step[0]] = step[1]
    log_dir = tmp_path_factory.mktemp("groups")
    assert held(log_dir, steps) == wanted
    shutil.rmtree(log_dir)


@pytest.mark.parametrize(
    ("steps", "wanted"),
    [
        ([("a", 1, -1), ("b", 2, -1), ("a", None, -1)], {"b": 2}),
        ([("a", 1, 7), ("a", None, -1), (7, True)], {}),
        ([("a", 1, -1), ("a", None, -1), ("a", 3, -1)], {"a": 3}),
    ],
)
def test_a_tombstone_removes_an_offset_and_a_pending_one(tmp_path, steps, wanted):
    assert held(tmp_path, steps) == wanted


def test_a_commit_of_an_old_version_says_itself_when_it_expires(tmp_path):
    old = value(1, "OffsetCommitValue", offset=4, metadata="", commitTimestamp=5, expireTimestamp=6)
    coordinator_partition_at(tmp_path, 0, commits((commit_key("old"), old)))
    ((row,),) = [one["offsets"] for one in json_of("groups", tmp_path)[1] if one["type"] == "group"]
    assert (row["current_offset"], row["expires_at_ms"]) == (4, 6)

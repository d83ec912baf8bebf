"""Logs of tiered topics under power cuts and failing calls: what speaks of records in remote storage stays as it is."""

import random
from dataclasses import replace

import pytest

from tests.crash.log_directories import PARTITION, ROOT
from tests.crash.messages import READ_ONLY, CheckedMessage, candidates
from tests.crash.writer_matrix import WriterMatrix, own_tree
from tests.crash.writers import (
    APPEND,
    COMPACT,
    DELETE_RECORDS,
    FREE,
    INDEXES_ONLY,
    LIKE_BROKER,
    NOT_TIERED,
    RECOVER,
    RETAIN,
    ROLL,
    TRUNCATE,
    UNDO,
    ids,
)
from tests.support import watched_fs
from tests.support.effort import DIAL
from tests.support.watched_fs import FailingFilesystem

TIERED = ("--config", "remote.storage.enable=true")
LOCAL_MS = ("--config", "local.retention.ms=1", "--config", "local.retention.bytes=1")
REMOTE_EPOCHS = b"\n0 3\n1 8\n2 14\n"
LOG_START = b"\nt 0 3\n"
BROKER_EPOCHS, BROKER_START = b"\n0 124\n", b"\nt 0 124\n"
IMAGES, FAULTS_A_CASE = 6, 6


def tiered(writer, *more):
    return replace(writer, name=f"{writer.name}-tiered", argv=(*writer.argv, *TIERED, *more))


REPAIRS = [(tiered(one), name) for one in (RECOVER, INDEXES_ONLY) for name in ("tiered", "broker_tiered_torn")]
CHANGES = [(tiered(one), name) for one in (ROLL, APPEND) for name in ("tiered_sound", "broker_tiered")]
CHANGES += [(tiered(APPEND), "remote_only")]
UNKNOWN = [(RECOVER, "tiered"), (UNDO, "tiered"), (ROLL, "tiered_sound"), (APPEND, "remote_only")]
"""No source says that the topic is tiered."""
CASES = [*REPAIRS, *CHANGES, *UNKNOWN]
TRUNCATE_AT_18, TRUNCATE_AT_190 = (
    replace(TRUNCATE, argv=tuple(offset if word == "6" else word for word in TRUNCATE.argv)) for offset in ("18", "190")
)
REFUSED = [
    (writer, fixture)
    for writer in (
        tiered(replace(RETAIN, argv=(*RETAIN.argv, *LOCAL_MS))),
        tiered(replace(FREE, argv=tuple(word for word in FREE.argv if word not in NOT_TIERED[1:]) + TIERED[1:])),
        tiered(DELETE_RECORDS),
        DELETE_RECORDS,
        tiered(COMPACT),
    )
    for fixture in ("tiered_sound", "remote_only", "broker_tiered")
]
for truncate, fixtures in ((TRUNCATE_AT_18, ("tiered_sound", "remote_only")), (TRUNCATE_AT_190, ("broker_tiered",))):
    REFUSED += [(writer, fixture) for writer in (truncate, tiered(truncate)) for fixture in fixtures]


@pytest.fixture(autouse=True)
def _read_only(monkeypatch):
    monkeypatch.setitem(watched_fs.FAULTS, "EROFS", READ_ONLY)


def check_remote(disk, where):
    """The epochs of what is in remote storage, and the start of the log there."""
    tree = own_tree(disk)
    is_a_brokers = any(f"{169:020d}." in path for path in tree)
    epochs, start = (BROKER_EPOCHS, BROKER_START) if is_a_brokers else (REMOTE_EPOCHS, LOG_START)
    assert epochs in tree[f"{PARTITION}/leader-epoch-checkpoint"][0], where
    assert start in tree[f"{ROOT}/log-start-offset-checkpoint"][0], where


@pytest.mark.exhaustive
@pytest.mark.parametrize(("writer", "fixture"), CASES, ids=ids(CASES))
def test_a_power_cut_after_any_call_on_a_tiered_log_leaves_before_or_after(writer, fixture, evidence):
    matrix = WriterMatrix(writer, fixture)
    found = matrix.images()
    for image in found:
        check_remote(image.disk, image.where)
    last = [image for image in found if image.is_over]
    others = [image for image in found if not image.is_over]
    chance = random.Random(f"{writer.name} {fixture} {DIAL.scale}")
    for image in [*last, *chance.sample(others, min(IMAGES * DIAL.scale, len(others)))]:
        matrix.look(image)
        check_remote(image.disk, image.where)
    evidence("R35", len(found), len(CASES) + 1)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("writer", "fixture"), CASES, ids=ids(CASES))
def test_a_failed_call_on_a_tiered_log_leaves_what_its_message_says(writer, fixture):
    found = candidates(writer, fixture)
    chance = random.Random(f"{writer.name} {fixture} {DIAL.scale}")
    for fault, for_ever, n in chance.sample(found, min(FAULTS_A_CASE * DIAL.scale, len(found))):
        told = CheckedMessage(writer, fixture, fault, for_ever, n)
        told.check()
        check_remote(told.disk, told.where)


def test_recover_of_a_tiered_log_leaves_the_files_that_a_broker_leaves(evidence):
    """A broker keeps the line of the log start and the snapshot at the first segment (UnifiedLog with remote logs)."""
    writer = tiered(LIKE_BROKER)
    matrix = WriterMatrix(writer, "tiered")
    found = matrix.images()
    for image in found:
        check_remote(image.disk, image.where)
        assert f"{PARTITION}/{14:020d}.snapshot" in own_tree(image.disk), image.where
    evidence("R35", len(found), len(CASES) + 1)


@pytest.mark.parametrize(("writer", "fixture"), REFUSED, ids=ids(REFUSED))
def test_a_refused_writer_changes_nothing_on_a_tiered_log_when_a_call_fails(writer, fixture):
    disk = writer.disk(fixture)
    before = own_tree(disk)
    outcome = writer.act(disk)
    is_outside = writer.argv[0] == "truncate" and fixture == "remote_only"  # no offset of it is here
    assert outcome.code in ((1, 14) if is_outside else (13, 14)), outcome
    assert "tiered" in outcome.out + outcome.err or is_outside or "cleaner-offset" in outcome.out + outcome.err, outcome
    assert own_tree(disk) == before, outcome
    found = candidates(writer, fixture)
    chance = random.Random(f"{writer.name} {fixture} {DIAL.scale}")
    for fault, for_ever, n in chance.sample(found, min(FAULTS_A_CASE * DIAL.scale, len(found))):
        disk = writer.disk(fixture)
        outcome = writer.act(FailingFilesystem(disk, fault, n, for_ever=for_ever))
        assert outcome.code != 0, outcome
        assert own_tree(disk) == before, outcome

"""Records of the metadata log of a KRaft node, and its steps done; tests/transcripts/metadata-log.md has damage of its files."""

import json
import shlex
import shutil
import subprocess

import pytest

from tests.support.commands import kafkalog
from tests.support.metadata_logs import topic_id
from tests.support.metadata_nodes import (
    BAD_RECORDS,
    END,
    GOOD_RECORDS,
    LOG,
    METADATA,
    SNAPSHOT,
    append,
    begin_at_snapshot,
    copy_of,
    flip_at,
)


@pytest.fixture
def disk(corpus, tmp_path):
    return copy_of(corpus, tmp_path / "data")


def objects(*command):
    code, out, _ = kafkalog(*command, "--format", "json")
    return code, [json.loads(line) for line in out.splitlines()]


def findings(disk, *more):
    code, found = objects("verify", disk, *more)
    return code, [one for one in found if one["type"] == "finding" and one["severity"] == "corruption"]


def voters(disk, *ids):
    path = disk / METADATA / "quorum-state"
    state = json.loads(path.read_text())
    path.write_text(json.dumps(state | {"currentVoters": [{"voterId": one} for one in ids]}))


def test_lost_topics_and_settings_are_named(disk):
    append(disk, *GOOD_RECORDS["topic"], *GOOD_RECORDS["setting-of-no-topic"])
    flip_at(disk, 121)
    _, [found] = findings(disk)
    assert "the topics new, the settings retention.ms of topic no" in found["broker_effect"]


def test_with_other_voters_the_step_empties_the_directory_but_for_the_vote(disk):
    voters(disk, 1, 2, 3)
    begin_at_snapshot(disk)
    (disk / METADATA / SNAPSHOT).unlink()
    _, [found] = findings(disk)
    assert found["kind"] == "metadata-snapshot-missing"
    for command in found["next_step"].split("`")[1::2]:
        subprocess.run(shlex.split(command), check=True)
    assert [path.name for path in (disk / METADATA).iterdir()] == ["quorum-state"]
    assert (disk.parent / METADATA / f"{90:020d}.log").exists()


def test_a_damaged_snapshot_that_the_log_needs_is_to_be_restored(disk):
    begin_at_snapshot(disk)
    (disk / METADATA / SNAPSHOT).write_bytes(b"")
    _, [found] = findings(disk)
    assert found["next_step"].startswith(
        "restore the file from a backup of this directory; this node is the only voter"
    )


@pytest.mark.parametrize("name", BAD_RECORDS)
def test_a_record_that_no_controller_can_apply_is_named(disk, name):
    bad = BAD_RECORDS[name]
    append(disk, *bad.values, key=bad.key)
    code, [found] = findings(disk)
    assert code == bad.code
    assert found["kind"] == ("metadata-newer" if code == 12 else "metadata-record")
    assert found["first_offset"] == END + len(bad.values) - 1
    assert bad.says in found["message"]
    assert steps(disk, "does-not-start")
    code, _, err = kafkalog("cluster", disk)
    assert code == bad.code
    assert bad.says in err


@pytest.mark.parametrize("name", GOOD_RECORDS)
def test_a_record_that_a_controller_applies_is_no_finding(disk, name):
    append(disk, *GOOD_RECORDS[name])
    assert findings(disk) == (0, [])
    assert kafkalog("cluster", disk)[0] == 0


def test_the_printed_commands_remove_a_bad_record_from_the_log_of_the_only_voter(disk):
    before = (disk / METADATA / LOG).read_bytes()
    append(disk, *BAD_RECORDS["broker-epoch"].values)
    _, [found] = findings(disk)
    for command in found["next_step"].split("`")[1::2]:
        subprocess.run(shlex.split(command), check=True)
    assert (disk / METADATA / LOG).read_bytes() == before
    assert (disk.parent / METADATA / LOG).stat().st_size > len(before)
    assert findings(disk) == (0, [])


def steps(disk, action):
    _, found = objects("doctor", disk)
    return [one for one in found if one["type"] == "start-step" and one["action"] == action]


def test_partitions_of_topics_after_the_newest_snapshot_are_set_aside_where_the_log_ends_before_it(disk):
    log = disk / METADATA / LOG
    log.write_bytes(bytes(range(256)) * 2)
    made = disk / "made-0"
    shutil.copytree(disk / "in-a-0", made)
    (made / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id(77)}\n")
    assert [one["path"] for one in steps(disk, "sets-aside")] == [str(made)]

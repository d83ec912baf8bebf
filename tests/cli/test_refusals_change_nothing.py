"""Every refusal of the table, met by every command that it is for: the log directory stays as it is, byte for byte."""

import os
import shutil
import stat
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.commands import a_broker_on, kafkalog
from tests.support.metadata_logs import batches, partition, topic_id, value
from tests.support.product import RULES, Action, RuleOutcome

EXAMPLE = Path(__file__).parents[2] / "docs" / "example" / "mixed-0"
YEAR_2040 = ("--now", "2040-01-01T00:00:00Z")
T1 = topic_id(1)
SETS = {
    Action.RETAIN: ("--config", "cleanup.policy=delete", "--config", "retention.ms=1"),
    Action.COMPACT: ("--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=0"),
}
ARGV = {
    Action.RECOVER: ("recover",),
    Action.ROLL: ("roll", "--force"),
    Action.RETAIN: ("retain",),
    Action.COMPACT: ("compact",),
    Action.TRUNCATE: ("truncate", "--to", "1"),
    Action.DELETE_RECORDS: ("delete-records", "--before", "1"),
    Action.APPEND: ("append",),
    Action.UNDO: ("undo",),
    Action.PURGE: ("purge", "--older-than", "0s"),
}


class Case(NamedTuple):
    """What is on the command line beside the path; `knows`: --single-replica, and settings of retain and compact."""

    path: Path
    more: tuple[str, ...] = YEAR_2040
    knows: bool = True
    also: tuple[Path, ...] = ()


def called(*argv):
    """(exit code, stdout and stderr)."""
    code, out, err = kafkalog(*argv, stdin=b'{"value":"x"}\n')
    return code, out + err


def tree(root):
    """Names, content, modes, owners, times and numbers of links of all but `.lock`, and the times of log.dir."""
    found = {}
    for path in sorted(root.rglob("*")):
        facts = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(facts.st_mode) else None
        is_fixed = not (path / "meta.properties").exists()
        found[str(path)] = (content, facts.st_mode, facts.st_uid, facts.st_mtime_ns if is_fixed else 0, facts.st_nlink)
    return {path: value for path, value in found.items() if not path.endswith("/.lock")}


def metadata(data, *, replicas=(1,), name="t", settings=(), damaged=False):
    records = [[value("TopicRecord", name=name, topicId=T1), partition(T1, replicas=replicas)]]
    for key, text in settings:
        records[0].append(value("ConfigRecord", resourceType=2, resourceName=name, name=key, value=text))
    content = batches(records)[0]
    directory = data / "__cluster_metadata-0"
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(content[:-1] + b"\xff" + content if damaged else content)


def renamed(name):
    def plant(data):
        return Case((data / "t-0").rename(data / name))

    return plant


def bookkeeper(data):
    (data / "t-0" / "0.log").write_bytes(b"BKLO" + bytes(1020))
    for path in (data / "t-0").glob("0000*"):
        path.unlink()
    return Case(data / "t-0")


def foreign_link(data):
    (data / "t-0").rename(data.parent / "another-0")
    without_log = data.parent / "without a log"
    without_log.mkdir()
    if (runs := data.parent / "another-0" / ".kafkalog").exists():
        runs.rename(without_log / ".kafkalog")
    (data / "t-0").symlink_to(without_log)
    return Case(data / "t-0")


def twins(data):
    shutil.copytree(data, data.parent / "other")
    return Case(data, also=(data.parent / "other",))


def odd_file(data):
    os.mkfifo(data / "t-0" / f"{900:020d}.index")
    return Case(data / "t-0")


def tiered(data):
    return Case(data / "t-0", (*YEAR_2040, "--config", "remote.storage.enable=true"))


def not_assigned(data):
    metadata(data, replicas=(2,))
    return Case(data / "t-0")


def replicated(data):
    metadata(data, replicas=(1, 2))
    return Case(data / "t-0", knows=False)


def unknown(data):
    return Case(data / "t-0", knows=False)


def linked(data):
    last = sorted((data / "t-0").glob("*.log"))[-1]
    last.write_bytes(last.read_bytes() + b"torn")  # for recover to cut
    for path in (data / "t-0").glob("*.log"):
        (data.parent / path.name).hardlink_to(path)
    for path in (data / "t-0").glob("*index"):
        (data.parent / path.name).hardlink_to(path)
    return Case(data / "t-0")


def clock(data):
    newest = sorted((data / "t-0").glob("*.log"))[-1]
    os.utime(newest, (4_000_000_000, 4_000_000_000))
    return Case(data / "t-0", ())


def overridden(data):
    metadata(data, settings=[("cleanup.policy", "compact")])
    return Case(data, (*YEAR_2040, "--config", "cleanup.policy=delete", "--config", "retention.ms=1"), knows=False)


def overridden_by_compact(data):
    metadata(data, settings=[("cleanup.policy", "delete")])
    return Case(data, (*YEAR_2040, "--config", "cleanup.policy=compact"), knows=False)


def illegal_for_compact(data):
    metadata(data, settings=[("cleanup.policy", "garbage")])
    return Case(data / "t-0", knows=False)


def other_topic(data):
    metadata(data)
    (data / "t-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id(2)}")
    return Case(data / "t-0", knows=False)


def no_limit(data):
    return Case(data / "t-0", (*YEAR_2040, "--config", "cleanup.policy=delete"), knows=False)


def illegal(data):
    metadata(data, settings=[("cleanup.policy", "delete"), ("retention.ms", "garbage")])
    return Case(data / "t-0", knows=False)


def outdated(data):
    metadata(data, settings=[("cleanup.policy", "delete"), ("retention.ms", "1")], damaged=True)
    return Case(data / "t-0", knows=False)


def never_deletes(data):
    return Case(data / "t-0", (*YEAR_2040, "--config", "cleanup.policy=compact"))


PLANTS = {
    "foreign-layout": bookkeeper,
    "metadata-log": renamed("__cluster_metadata-0"),
    "marked-directory": renamed(f"t-0.{'a' * 32}-delete"),
    "foreign-link": foreign_link,
    "twins": twins,
    "odd-files": odd_file,
    "odd-topic": renamed("t x-0"),
    "tiered": tiered,
    "not-assigned": not_assigned,
    "replicated": replicated,
    "unknown-replication": unknown,
    "linked-files": linked,
    "clock": clock,
    "no-policy": unknown,
    "overridden-policy": overridden,
    "other-topic": other_topic,
    "never-deletes": never_deletes,
    "no-limit": no_limit,
    "illegal-setting": illegal,
    "outdated-settings": outdated,
}
FOR_COMPACT = {"overridden-policy": overridden_by_compact, "illegal-setting": illegal_for_compact}
TAKES_ONE_PATH = {Action.TRUNCATE, Action.DELETE_RECORDS, Action.APPEND, Action.UNDO}
NOT_IN_PLACE = {("linked-files", Action.ROLL), ("linked-files", Action.UNDO)}
"""Nothing of this log is changed in place then, so that it is not refused."""

REFUSING = [rule for rule in RULES if rule.outcome is not RuleOutcome.WARNING]
CASES = [(rule.name, action) for rule in REFUSING for action in Action if action in rule.actions and action in ARGV]
CASES = [(name, action) for name, action in CASES if (name, action) not in NOT_IN_PLACE]
CASES = [(name, action) for name, action in CASES if name != "twins" or action not in TAKES_ONE_PATH]


def test_every_refusal_is_planted():
    assert {rule.name for rule in REFUSING} == PLANTS.keys()
    assert set(ARGV) == set(Action) - {Action.IMPORT}


@pytest.fixture
def data(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    (data / ".kafka_cleanshutdown").write_bytes(b'{"version":0,"brokerEpoch":7}')
    shutil.copytree(EXAMPLE, data / "t-0")
    (data / "t-0" / "partition.metadata").unlink(missing_ok=True)
    return data


@pytest.mark.parametrize(("name", "action"), CASES, ids=[f"{name}-{action.value}" for name, action in CASES])
def test_each_refusal_leaves_all_files_as_they_were(data, name, action):
    after = ()
    if action in (Action.UNDO, Action.PURGE):
        code, said = called("roll", data / "t-0", "--force", *(() if name == "clock" else YEAR_2040))
        assert code == 0, said
        after = (said.split("kafkalog undo ")[1].split()[1],) if action is Action.UNDO else ()
    plant = FOR_COMPACT.get(name, PLANTS[name]) if action is Action.COMPACT else PLANTS[name]
    path, more, knows, also = plant(data)
    if action in (Action.UNDO, Action.PURGE):
        more = () if name == "clock" else ("--now", "2041-01-01T00:00:00Z")
    if knows:
        more += SETS.get(action, ())
    if knows and action in (Action.TRUNCATE, Action.DELETE_RECORDS, Action.APPEND):
        more += ("--single-replica",)
    command, *options = ARGV[action]
    before = tree(data.parent)
    code, said = called(command, path, *also, *after, *options, *more)
    assert code in (14, 12), (code, said)
    assert tree(data.parent) == before, said


def test_the_lock_of_a_broker_changes_nothing(data):
    with a_broker_on(data):
        for action, (command, *options) in ARGV.items():
            more = SETS.get(action, ())
            if action in (Action.TRUNCATE, Action.DELETE_RECORDS, Action.APPEND):
                more = ("--single-replica",)
            after = ("20260101T000000.000Z-roll-abcd",) if action is Action.UNDO else ()
            before = tree(data)
            code, said = called(command, data / "t-0", *after, *options, *YEAR_2040, *more)
            assert code == (10 if action is Action.UNDO else 11), (action, code, said)
            assert tree(data) == before, action


@pytest.mark.parametrize("more", [("--single-replica",), ()], ids=["old line", "unknown replication"])
def test_a_refused_append_to_a_partition_that_is_not_there(data, more):
    (data / "log-start-offset-checkpoint").write_text("0\n1\nnew 3 500\n")
    before = tree(data)
    code, said = called("append", data / "new-3", *more)
    assert code == 14
    assert tree(data) == before
    assert "recover it" not in said

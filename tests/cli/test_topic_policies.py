"""Whose settings retain and compact follow: the metadata log, server.properties, and what --config may not override."""

import json
import shlex
import shutil
from pathlib import Path

import pytest

from tests.support.commands import kafkalog
from tests.support.metadata_logs import batches, log_dir_of_topics, partition, topic_id, value

EXAMPLE = Path(__file__).parents[2] / "docs" / "example" / "mixed-0"
TOPICS = {
    "customers": {"cleanup.policy": "compact"},
    "both": {"cleanup.policy": "compact,delete"},
    "orders": {"retention.ms": "3600000"},
    "plain": {},
}
LATER = ("--now", "2040-01-01T00:00:00Z")
NONE_OF_4 = "dry run: 0 of 4 partitions would be changed. Nothing was changed\n"
DELETES = ("--config", "cleanup.policy=delete", "--config", "retention.ms=600000")


@pytest.fixture
def data(tmp_path):
    """A log directory with its metadata log beside the partitions, and the broker's server.properties."""
    return log_dir_of_topics(tmp_path, TOPICS)


def emptied(out):
    """The topics of which retain, with --format json, removes segments."""
    return {each["topic"] for each in map(json.loads, out.splitlines()) if each.get("removed")}


def skipped(err):
    """The topics that were skipped, with the reason."""
    lines = [line.partition(": skipped: ") for line in err.splitlines() if "-0: skipped: " in line]
    lines = [line for line in lines if "__cluster_metadata" not in line[0]]
    return {line[0].rpartition("/")[2].removesuffix("-0"): line[2] for line in lines}


def test_kafkas_defaults_count_where_every_source_was_read(data):
    broker = ("--broker-config", data.parent / "server.properties")
    code, out, _ = kafkalog("retain", data, *broker, *LATER, "--dry-run", "--format", "json")
    assert (code, emptied(out)) == (0, {"both", "orders", "plain"})
    code, out, err = kafkalog("retain", data, *LATER, "--dry-run")
    advice = "Give the broker's server.properties with --broker-config FILE"
    assert code == 5
    assert skipped(err).keys() == {"orders", "plain", "both"}
    assert all(reason.endswith(advice) for reason in skipped(err).values())
    shutil.move(data / "__cluster_metadata-0", data.parent)
    code, out, err = kafkalog("retain", data, *broker, *LATER, "--dry-run")
    assert (code, out, len(skipped(err))) == (14, NONE_OF_4, len(TOPICS))
    assert all("with --metadata DIR (no metadata log was found)" in reason for reason in skipped(err).values())
    metadata = ("--metadata", data.parent / "__cluster_metadata-0")
    assert kafkalog("retain", data, *broker, *metadata, *LATER, "--dry-run")[0] == 0


def test_a_topic_that_the_metadata_log_does_not_have_is_not_known(data):
    (data / "orders-0").rename(data / "gone-0")
    broker = ("--broker-config", data.parent / "server.properties")
    code, _, err = kafkalog("retain", data, *broker, *LATER, "--dry-run")
    assert (code, skipped(err).keys()) == (5, {"gone"})
    assert "has no such topic" in skipped(err)["gone"]


@pytest.mark.parametrize("policy", ["delete", "compact,delete", "delete,compact"])
def test_the_command_line_does_not_override_a_compacted_topic(data, policy):
    limits = ("--config", f"cleanup.policy={policy}", "--config", "retention.ms=600000")
    before = {path: path.read_bytes() for path in data.glob("customers-0/*") if path.is_file()}
    code, out, err = kafkalog("retain", data, *limits, *LATER, "--format", "json")
    assert (code, emptied(out) >= {"orders", "plain"}, "customers" in emptied(out)) == (5, True, False)
    assert "--config cleanup.policy" in err
    assert before == {path: path.read_bytes() for path in data.glob("customers-0/*") if path.is_file()}
    for naming in (["--topic", "customers", "--topic", "orders"], ["--topic-pattern", "customers"]):
        code, out, _ = kafkalog("retain", data, *naming, *limits, *LATER, "--dry-run", "--format", "json")
        assert "customers" not in emptied(out)
    several = [data / "customers-0", data / "plain-0"]
    assert "customers" not in emptied(kafkalog("retain", *several, *limits, *LATER, "--dry-run", "--format", "json")[1])
    for named in ([data, "--topic", "customers"], [data / "customers-0"]):
        code, out, err = kafkalog("retain", *named, *limits, *LATER, "--dry-run", "--format", "json")
        assert (code, emptied(out)) == (0, {"customers"})
        assert "overrides this topic's own policy" in err


def test_a_policy_for_several_topics_whose_own_is_not_known_is_warned_of_first(data):
    """Without the metadata log a compacted topic looks as all others do; the cleaner may not have listed it yet."""
    away = shutil.move(data / "__cluster_metadata-0", data.parent)
    argv = ("retain", data, *DELETES, *LATER, "--dry-run")
    code, _, err = kafkalog(*argv)
    warned = [
        line for line in err.splitlines() if "the topic's own policy is not known (no metadata log was found)" in line
    ]
    assert (code, len(warned)) == (0, len(TOPICS)), err
    for known in (["--topic", "plain"], ["--metadata", away]):
        assert "is not known" not in kafkalog(*argv, *known)[2]
    free = (*argv[:-1], "--free-bytes", "9000TB", "--dry-run", "--format", "json")
    kinds = [json.loads(line).get("kind") for line in kafkalog(*free)[2].splitlines()]
    assert kinds.count("unread-policy") == len(TOPICS)


def test_a_policy_for_compact_is_warned_of_as_well(data):
    """A topic with the policy `delete` loses records of which a newer one has the same key, or that have none."""
    away = shutil.move(data / "__cluster_metadata-0", data.parent)
    argv = ("compact", data, "--config", "cleanup.policy=compact", *LATER, "--dry-run")
    code, _, err = kafkalog(*argv)
    assert (code, err.count("if the topic is not compacted, it loses records")) == (0, len(TOPICS)), err
    for known in (["--topic", "plain"], ["--metadata", away]):
        assert "is not known" not in kafkalog(*argv, *known)[2]


def test_a_line_of_the_cleaner_protects_as_well(data):
    shutil.rmtree(data / "__cluster_metadata-0")
    (data / "cleaner-offset-checkpoint").write_text("0\n1\nplain 0 4\n")
    code, out, err = kafkalog("retain", data, *DELETES, *LATER, "--dry-run", "--format", "json")
    assert (code, "plain" in emptied(out), "cleaner-offset-checkpoint lists it" in err) == (5, False, True)
    for config in (DELETES, ("--config", "cleanup.policy=delete,compact")):
        found = kafkalog("retain", data / "plain-0", *config, *LATER, "--dry-run", "--free-bytes", "9000TB")[1]
        assert "nothing unlinked" in found


def test_a_line_of_the_cleaner_is_about_all_partitions_of_the_topic(data):
    shutil.rmtree(data / "__cluster_metadata-0")
    shutil.copytree(data / "plain-0", data / "plain-1")
    (data / "cleaner-offset-checkpoint").write_text("0\n1\nplain 0 4\n")
    code, out, _ = kafkalog("retain", data, *DELETES, *LATER, "--dry-run", "--format", "json")
    assert (code, "plain" in emptied(out)) == (5, False)
    found = kafkalog("retain", data / "plain-1", *DELETES, *LATER, "--dry-run", "--free-bytes", "9000TB")[1]
    assert "nothing unlinked, cleaner-offset-checkpoint lists it" in found


@pytest.mark.parametrize("name", ["cleaner-offset-checkpoint", f"__cluster_metadata-0/{0:020d}.log"])
def test_room_is_not_made_where_a_damaged_file_may_have_called_the_topic_compacted(data, name):
    """Nothing undoes --free-bytes, and --config knows no more than the file that was."""
    if "/" not in name:
        shutil.rmtree(data / "__cluster_metadata-0")
        (data / name).write_bytes(b"damaged")
    else:
        log = (data / name).read_bytes()
        (data / name).write_bytes(log[:80] + bytes([log[80] ^ 1]) + log[81:])
    command = ("retain", data, *DELETES, *LATER, "--free-bytes", "9000TB", "--dry-run")
    found = kafkalog(*command)[1]
    assert found.count("is damaged, and may have") == len(TOPICS), found


def test_room_is_not_made_where_damage_may_hide_a_later_policy(data):
    """The topic said `delete`; a later record of the metadata log, behind the damage, may say `compact`."""
    log = data / "__cluster_metadata-0" / f"{0:020d}.log"
    said = value("ConfigRecord", resourceType=2, resourceName="plain", name="cleanup.policy", value="delete")
    damaged = batches([[said]], 100)[0]
    whole = batches([[value("TopicRecord", name="plain", topicId=topic_id(4)), partition(topic_id(4)), said]])[0]
    log.write_bytes(whole + damaged[:-1] + bytes([damaged[-1] ^ 1]) + batches([[said]], 101)[0])
    command = ("retain", data / "plain-0", *DELETES, *LATER, "--free-bytes", "9000TB", "--dry-run")
    assert "nothing unlinked, the metadata log is damaged" in kafkalog(*command)[1]


def test_room_is_never_made_from_what_is_compacted(data):
    broker = ("--broker-config", data.parent / "server.properties")
    for named in ([data], [data / "customers-0"], [data, "--topic", "customers"], [data, "--topic", "both"]):
        for config in ((), DELETES, ("--config", "cleanup.policy=compact,delete")):
            argv = ("retain", *named, *broker, *config, *LATER, "--dry-run", "--free-bytes", "9000TB")
            code, out, _ = kafkalog(*argv, "--format", "json")
            assert code == 13
            assert not emptied(out) & {"customers", "both"}


def test_a_glob_of_a_shell_names_no_topic(data):
    """Each partition is given by its path, and yet no policy is assumed for all of them."""
    shutil.rmtree(data / "__cluster_metadata-0")
    limit = ("--config", "retention.ms=600000", *LATER, "--dry-run")
    assert kafkalog("retain", *sorted(data.glob("*-0")), *limit)[:2] == (14, NONE_OF_4)
    assert kafkalog("retain", data / "plain-0", *limit)[0] == 0


def test_compact_is_silent_about_topics_that_are_not_compacted(data):
    broker = ("--broker-config", data.parent / "server.properties")
    code, out, err = kafkalog("compact", data, *broker, *LATER)
    assert (code, "orders" in out + err, "plain" in out + err) == (0, False, False)
    assert "customers-0: " in out
    for quiet in ((), ("--dry-run",)):
        assert "orders" not in "".join(kafkalog("compact", data, *broker, *LATER, *quiet)[1:])
    code, out, _ = kafkalog("compact", data / "plain-0", *broker, *LATER)
    assert (code, "cleanup.policy has no compact" in out) == (0, True)
    records = ("--config", "cleanup.policy=delete")
    assert kafkalog("compact", data, *broker, *records, *LATER, "--quiet")[1] == ""


def test_nothing_is_compacted_against_a_topics_own_policy(data):
    metadata = data / "__cluster_metadata-0" / f"{0:020d}.log"
    own = [value("TopicRecord", name="plain", topicId=topic_id(9)), partition(topic_id(9))]
    own.append(value("ConfigRecord", resourceType=2, resourceName="plain", name="cleanup.policy", value="delete"))
    metadata.write_bytes(batches([own])[0])
    argv = ("compact", data, "--config", "cleanup.policy=compact", *LATER, "--dry-run")
    code, _, err = kafkalog(*argv)
    assert (code, skipped(err).keys()) == (5, {"plain"})
    assert kafkalog(*argv, "--topic", "plain")[0] == 0
    broker = ("--broker-config", data.parent / "server.properties")
    (data / "orders-0").rename(data / "unknown-0")
    code, _, err = kafkalog(*argv, *broker)
    assert (code, skipped(err).keys()) == (5, {"plain"})


def test_nothing_is_compacted_that_is_known_to_be_deleted_only(data):
    """Every source was read: the policy is Kafka's default, `delete`. Its records have keys by chance, or none."""
    argv = ("compact", data, "--config", "cleanup.policy=compact", *LATER, "--dry-run")
    broker = ("--broker-config", data.parent / "server.properties")
    code, _, err = kafkalog(*argv, *broker)
    assert (code, skipped(err).keys()) == (5, {"orders", "plain"})
    assert kafkalog(*argv, *broker, "--topic", "plain")[0] == 0


def test_delete_records_of_a_topic_that_is_only_compacted_is_refused(data):
    """As a broker refuses it (Partition.deleteRecordsOnLeader: PolicyViolationException unless config.delete)."""
    argv = ("--before", "5", "--single-replica")
    before = sorted(path.name for path in (data / "customers-0").iterdir())
    code, out, err = kafkalog("delete-records", data / "customers-0", *argv)
    assert (code, out) == (14, ""), err
    assert (
        "cleanup.policy=compact (the topic's own, in the metadata log): it answers DeleteRecords with POLICY_VIOLATION"
        in err
    )
    assert sorted(path.name for path in (data / "customers-0").iterdir()) == before
    command = shlex.split(err.partition("(to go on: `")[2].partition("`)")[0])
    flag = ("--config", "cleanup.policy=compact,delete")
    assert command == ["kafkalog", "delete-records", str(data / "customers-0"), *argv, *flag]
    assert kafkalog(*command[1:])[0] == 0
    for name in ("both", "orders", "plain"):
        code, _, err = kafkalog("delete-records", data / f"{name}-0", *argv)
        assert (code, "POLICY_VIOLATION" in err) == (0, False), err
    shutil.copytree(EXAMPLE, data / "__consumer_offsets-0")
    code, _, err = kafkalog("delete-records", data / "__consumer_offsets-0", *argv, *flag)
    assert (code, "fixed for this internal topic" in err, "to go on" in err) == (14, True, False), err


def test_a_directory_of_zookeeper_has_no_metadata_log_to_give(data):
    """The topics' settings are in ZooKeeper: what is named instead works, typed as it is printed."""
    shutil.move(data / "__cluster_metadata-0", data.parent)
    (data / "meta.properties").write_text("version=0\nbroker.id=1\n")
    code, _, err = kafkalog("retain", data, *LATER, "--dry-run")
    assert (code, skipped(err).keys(), "--metadata" in err) == (14, set(TOPICS), False), err
    assert "with --topic plain and --config NAME=VALUE (a broker with ZooKeeper has no metadata log) and" in err
    code, out, err = kafkalog("retain", data, *DELETES, *LATER, "--dry-run")
    assert (code, err.count("with --topic plain and --config NAME=VALUE"), "--metadata" in err) == (0, 1, False), err
    code, out, err = kafkalog("retain", data, "--topic", "plain", *DELETES, *LATER, "--dry-run", "--format", "json")
    assert (code, emptied(out), err) == (0, {"plain"}, "")

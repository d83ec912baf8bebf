"""Random combinations of all that may say a topic's policy: retain, compact and --free-bytes do what the design allows.

`may_change` is the rule in short words: what a broker would do with the sources that were read, and nothing where a source is
missing or where the cleaner once had the topic. It knows nothing of the table of refusals.
"""

import random
from itertools import pairwise
from typing import NamedTuple

import pytest

from tests.support.commands import kafkalog
from tests.support.logs import BASE_TIME_MS, R, batch_v2, write_segment
from tests.support.metadata_logs import batches, log_dir_of_topics, partition, topic_id, value

POLICIES = [None, "delete", "compact", "compact,delete"]
ALONE = ("path", "topic")


class Case(NamedTuple):
    """`own`, `broker`, `brokers`: in the metadata log; `static`: in server.properties, None without the option."""

    verb: str
    topic: str
    metadata: str
    own: str | None
    broker: str | None
    brokers: str | None
    static: str | None
    given: str | None
    limit: bool
    listed: bool
    naming: str

    @property
    def below(self):
        """The policy without --config, None if nothing that was read has it."""
        if self.topic.startswith("__"):
            return "compact"
        in_log = (
            [self.own, self.broker, self.brokers] if self.metadata == "whole" else [None, self.broker, self.brokers]
        )
        found = next(filter(None, [*(in_log if self.metadata != "none" else []), self.static]), None)
        return "delete" if found is None and self.metadata == "whole" and self.static is not None else found

    @property
    def is_internal(self):
        return self.topic.startswith("__")

    @property
    def is_alone(self):
        return self.naming in ALONE


def a_case(chance):
    return Case(
        chance.choice(["retain", "free", "compact"]),
        chance.choice(["t", "t", "t", "__consumer_offsets"]),
        chance.choice(["whole", "whole", "none", "without the topic"]),
        chance.choice(POLICIES),
        chance.choice(POLICIES[:3]),
        chance.choice(POLICIES[:3]),
        chance.choice([None, "", "delete", "compact"]),
        chance.choice([*POLICIES, "delete,compact"]),
        chance.random() < 0.5,
        chance.random() < 0.5,
        chance.choice([*ALONE, "directory", "topics", "pattern", "paths"]),
    )


def parts(policy):
    return set((policy or "").split(","))


def may_change(case):
    """Whether records may go. `listed`: in cleaner-offset-checkpoint."""
    own, used = parts(case.below), parts(case.below if case.is_internal else case.given or case.below)
    if case.verb == "free":
        return used == {"delete"} and "compact" not in own and not case.listed
    if case.verb == "compact":
        is_other = case.given and case.below and "compact" not in own and not case.is_internal
        return "compact" in used and (case.is_alone or not is_other)
    is_limited = case.limit or case.static is not None
    if not case.is_internal and case.given is None and case.below is None:
        return case.is_alone and case.limit and not case.listed
    if case.is_internal or "delete" not in used or not is_limited:
        return False
    if case.given is None:
        return not case.listed or case.metadata == "whole"
    is_override = "compact" in own and used != own
    return case.is_alone or not (is_override or (case.listed and "compact" not in own))


def setting(kind, resource, name, text):
    return [value("ConfigRecord", resourceType=kind, resourceName=resource, name=name, value=text)] if text else []


def log_directory(root, case):
    data = root / "data"
    for topic in (case.topic, "other"):
        path = data / f"{topic}-0"
        path.mkdir(parents=True)
        for base in (0, 10, 20):
            records = [R(base + at, BASE_TIME_MS, b"%d" % (at % 2), b"v") for at in range(10)]
            write_segment(path, base, [(batch_v2(records), base + 9, BASE_TIME_MS)])
    (data / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    if case.listed:
        (data / "cleaner-offset-checkpoint").write_text(f"0\n1\n{case.topic} 0 10\n")
    name = "log.cleanup.policy"
    if case.metadata != "none":
        groups = [setting(4, "1", name, case.broker) + setting(4, "", name, case.brokers)]
        groups.append(setting(4, "2", name, "compact,delete"))  # another broker's
        for number, topic in enumerate(("other", case.topic)[: 2 if case.metadata == "whole" else 1]):
            identity = topic_id(number)
            groups.append([value("TopicRecord", name=topic, topicId=identity), partition(identity)])
            groups[-1] += setting(2, topic, "cleanup.policy", case.own if topic == case.topic else None)
        (data / "__cluster_metadata-0").mkdir()
        (data / "__cluster_metadata-0" / f"{0:020d}.log").write_bytes(batches(list(filter(None, groups)))[0])
    static = f"{name}={case.static}\n" if case.static else ""
    (root / "server.properties").write_text(f"node.id=1\nlog.retention.hours=168\n{static}")
    return data


def command(data, case):
    path, other = data / f"{case.topic}-0", data / "other-0"
    yield "compact" if case.verb == "compact" else "retain"
    yield from {
        "path": [path],
        "topic": [data, "--topic", case.topic],
        "directory": [data],
        "topics": [data, "--topic", case.topic, "--topic", "other"],
        "pattern": [data, "--topic-pattern", ".*"],
        "paths": [path, other],
    }[case.naming]
    yield from ("--now", "2040-01-01T00:00:00Z")
    yield from {"retain": (), "free": ("--free-bytes", "9000TB"), "compact": ("--force",)}[case.verb]
    yield from ("--broker-config", data.parent / "server.properties") if case.static is not None else ()
    yield from ("--config", f"cleanup.policy={case.given}") if case.given else ()
    yield from ("--config", "retention.ms=1") if case.limit else ()


def content(path):
    return {each.name: each.read_bytes() for each in path.iterdir() if each.is_file()}


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(300))
def test_records_go_only_where_a_broker_or_a_named_topic_lets_them(tmp_path, seed):
    case = a_case(random.Random(seed))
    data = log_directory(tmp_path, case)
    before = content(data / f"{case.topic}-0")
    argv = list(command(data, case))
    code, _, err = kafkalog(*argv)
    is_changed = content(data / f"{case.topic}-0") != before
    is_left_open = case.verb == "free" and not case.given and case.below is None  # no policy: it may be skipped
    assert is_changed == may_change(case) or (is_left_open and not is_changed), (case, err)
    said = [line for line in err.splitlines() if f"/{case.topic}-0: skipped: no source" in line]
    for line in said:  # each source that is missing is named, and no other
        assert ("--metadata DIR" in line) == (case.metadata != "whole"), case
        assert ("--broker-config FILE" in line) == (case.static is None), case
    assert code in {0, 5, 13, 14}
    assert not said or code in {5, 14} or "cleaned, but retention removed nothing" in said[0]


def zookeeper_era(tmp_path, **more):
    case = Case("retain", "t", "none", None, None, None, "delete", None, False, True, "directory")._replace(**more)
    return case, log_directory(tmp_path, case)


@pytest.mark.parametrize("naming", ["directory", "path", "topic"])
def test_a_brokers_policy_is_no_answer_for_a_topic_that_the_cleaner_had(tmp_path, naming):
    """A directory of ZooKeeper's time: the topic's own `compact` was in ZooKeeper, `delete` is in server.properties."""
    case, data = zookeeper_era(tmp_path, naming=naming)
    before = content(data / "t-0")
    code, _, err = kafkalog(*command(data, case))
    assert (code, content(data / "t-0")) == (5 if naming == "directory" else 14, before), err
    told = "no source says which cleanup.policy this topic has of its own, and cleaner-offset-checkpoint lists it"
    assert told in err
    case = case._replace(given="delete", naming="topic")
    assert kafkalog(*command(data, case))[0] == 0
    assert content(data / "t-0") != before


@pytest.mark.parametrize(("verb", "static"), [("retain", "delete"), ("free", "delete"), ("compact", "compact")])
def test_a_brokers_policy_is_warned_of_where_the_topics_own_is_not_known(tmp_path, verb, static):
    case, data = zookeeper_era(tmp_path, verb=verb, static=static, listed=False, naming="path")
    err = kafkalog(*command(data, case), "--dry-run")[2]
    told = f"cleanup.policy={static} (log.cleanup.policy={static}, --broker-config) counts, but the topic's own policy"
    assert told in err, err


def test_the_warnings_of_a_policy_end_with_the_metadata_log(tmp_path):
    case = Case("retain", "t", "whole", None, None, None, "delete", None, False, True, "directory")
    err = kafkalog(*command(log_directory(tmp_path, case), case))[2]
    assert "own policy" not in err


def test_the_order_of_the_words_of_a_policy_overrides_nothing(tmp_path):
    for at, (own, given) in enumerate(pairwise(["compact,delete", "delete,compact", "compact,delete"])):
        case = Case("retain", "t", "whole", own, None, None, "", given, True, True, "directory")
        (tmp_path / str(at)).mkdir()
        data = log_directory(tmp_path / str(at), case)
        code, _, err = kafkalog(*command(data, case))
        assert (code, "t-0: skipped" in err) == (0, False), err


@pytest.mark.parametrize("text", ["", "\n", "# stock settings\n"])
def test_an_empty_server_properties_is_that_of_a_broker_with_stock_settings(tmp_path, text):
    case = Case("retain", "t", "whole", None, None, None, "", None, False, False, "directory")
    data = log_directory(tmp_path, case)
    (tmp_path / "server.properties").write_text(text)
    code, out, err = kafkalog(*command(data, case))
    assert code == 0, err
    assert out.count("3 segments removed (") == 2


def test_room_is_not_made_where_damage_of_the_metadata_log_may_hide_a_later_policy(tmp_path):
    """The topic has `delete`; a later record of the metadata log, after the damage, may say `compact`."""
    data = log_dir_of_topics(tmp_path, {"plain": {}})
    policy = value("ConfigRecord", resourceType=2, resourceName="plain", name="cleanup.policy", value="delete")
    damaged = batches([[policy]], 100)[0]
    whole = batches([[value("TopicRecord", name="plain", topicId=topic_id(4)), partition(topic_id(4)), policy]])[0]
    log = data / "__cluster_metadata-0" / f"{0:020d}.log"
    log.write_bytes(whole + damaged[:-1] + bytes([damaged[-1] ^ 1]) + batches([[policy]], 101)[0])
    argv = ("retain", data / "plain-0", "--config", "cleanup.policy=delete", "--free-bytes", "9000TB", "--dry-run")
    assert "nothing unlinked, the metadata log is damaged" in kafkalog(*argv).out

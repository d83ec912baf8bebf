"""Refusals: every row of the table holds where it should, not beside, and is lifted by its flag and no other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.disk.names import DirectoryKind
from kafkalog_cli.errors import ExitCode, Refused, Skipped, UnsupportedFormat
from kafkalog_cli.log.settings.topic_config import (
    ConfigLayers,
    UnreadSource,
    parse_topic_settings,
    resolve_topic_config,
)
from kafkalog_cli.ops.partition_facts import NewestFile, PartitionFacts, Replication
from kafkalog_cli.ops.refusals import RULES, Action, Intent, RuleOutcome, judge, raise_refusals

NOW = 1_800_000_000_000
TOPIC_SETTINGS = {"cleanup.policy": "delete", "retention.ms": "5"}


UNREAD = (UnreadSource("--broker-config was not given", "--broker-config FILE"),)
NO_METADATA = (*UNREAD, UnreadSource("no metadata log was found", "--metadata DIR", is_of_topic=True))


def config(topic="t", *, command_line=(), own=TOPIC_SETTINGS, static=None, unread=UNREAD):
    layers = ConfigLayers(parse_topic_settings(command_line), own, {}, {}, static or {}, unread)
    return resolve_topic_config(topic, layers)


FINE = PartitionFacts(
    "/d/t-0",
    DirectoryKind.PARTITION,
    "t",
    config(),
    config(),
    replication=Replication((1,), (1,), 1, 1),
    newest=NewestFile("0.log", NOW),
)
MANY = Replication((1, 2, 3), (2, 3), 2, 1)
EVERY = set(Action)


def with_config(**sources):
    own = {name: value for name, value in sources.items() if name != "command_line"}
    return FINE._replace(config=config(**sources), own=config(**own))


def as_asked(name, facts, action):
    """Compaction asks a topic that is not compacted for nothing but its settings."""
    rule = next(rule for rule in RULES if rule.name == name)
    if name == "overridden-policy" and action is Action.DELETE_RECORDS:
        return FINE  # it follows a policy of the command line: never-deletes has its own case
    if action is not Action.COMPACT or rule.actions <= {Action.RETAIN, Action.COMPACT}:
        return facts
    return facts._replace(config=config(own=COMPACTED), own=config(own=COMPACTED))


COMPACTED = {"cleanup.policy": "compact", "retention.ms": "5"}


# rule, what is so, which actions it stops, and intents that lift it
CASES = [
    ("foreign-layout", FINE._replace(foreign="Redpanda"), EVERY, {}),
    ("metadata-log", FINE._replace(is_metadata_log=True), EVERY, {}),
    ("marked-directory", FINE._replace(kind=DirectoryKind.DELETE), EVERY, {}),
    ("marked-directory", FINE._replace(kind=DirectoryKind.FUTURE), EVERY, {}),
    ("twins", FINE._replace(twins=("/e/t-0",)), EVERY, {}),
    ("odd-files", FINE._replace(odd_files=("0.log",)), EVERY - {Action.PURGE}, {}),
    ("foreign-link", FINE._replace(is_foreign_link=True), EVERY - {Action.PURGE, Action.IMPORT}, {}),
    ("odd-topic", FINE._replace(topic="a b"), EVERY - {Action.PURGE, Action.UNDO}, {}),
    ("odd-topic", FINE._replace(topic="a\udcff"), EVERY - {Action.PURGE, Action.UNDO}, {}),
    ("tiered", FINE._replace(tiered_because="so"), {Action.RETAIN, Action.COMPACT, Action.TRUNCATE, Action.DELETE_RECORDS}, {}),
    ("not-assigned", FINE._replace(not_assigned_because="so"), {Action.APPEND, Action.IMPORT}, {}),
    ("replicated", FINE._replace(replication=MANY), {Action.TRUNCATE, Action.DELETE_RECORDS, Action.APPEND, Action.IMPORT}, {"single_replica": True}),
    ("unknown-replication", FINE._replace(replication=None), {Action.TRUNCATE, Action.DELETE_RECORDS, Action.APPEND}, {"single_replica": True}),
    ("linked-files", FINE._replace(linked=("0.log",)), {Action.RECOVER, Action.ROLL, Action.TRUNCATE, Action.APPEND, Action.UNDO}, {}),
    ("clock", FINE._replace(newest=NewestFile("0.log", NOW + 1)), EVERY, {"now_is_given": True}),
    ("no-policy", with_config(own={"retention.ms": "5"}), {Action.RETAIN, Action.COMPACT}, {}),
    ("never-deletes", with_config(own=COMPACTED), {Action.DELETE_RECORDS}, {}),
    ("no-limit", with_config(own={"cleanup.policy": "delete"}), {Action.RETAIN}, {}),
    ("overridden-policy", with_config(own=COMPACTED, command_line=("cleanup.policy=delete",)), {Action.RETAIN}, {"is_named_alone": True}),
    ("overridden-policy", with_config(own=COMPACTED, command_line=("cleanup.policy=compact,delete",)), {Action.RETAIN}, {"is_named_alone": True}),
    ("overridden-policy", with_config(own={"retention.ms": "5"}, static={"log.cleanup.policy": "compact"}, command_line=("cleanup.policy=delete",)), {Action.RETAIN}, {"is_named_alone": True}),
    ("overridden-policy", with_config(command_line=("cleanup.policy=compact",)), {Action.COMPACT}, {"is_named_alone": True}),
    ("overridden-policy", with_config(own={}, unread=(), command_line=("cleanup.policy=compact",)), {Action.COMPACT}, {"is_named_alone": True}),
    ("overridden-policy", with_config(own={}, static={"log.cleanup.policy": "delete"}, command_line=("cleanup.policy=compact",)), {Action.COMPACT}, {"is_named_alone": True}),
    ("overridden-policy", with_config(command_line=("cleanup.policy=delete",))._replace(is_in_cleaner_checkpoint=True), {Action.RETAIN}, {"is_named_alone": True}),
    ("other-topic", FINE._replace(other_topic_because="so"), {Action.RETAIN, Action.COMPACT}, {}),
    ("illegal-setting", with_config(own={**TOPIC_SETTINGS, "retention.bytes": "x"}), {Action.RETAIN}, {}),
    ("illegal-setting", with_config(own={**TOPIC_SETTINGS, "cleanup.policy": "x"}, static={"log.cleanup.policy": "delete"}), {Action.RETAIN, Action.COMPACT}, {}),
    ("outdated-settings", FINE._replace(metadata_is_damaged=True), {Action.RETAIN, Action.COMPACT}, {}),
]  # fmt: skip
WARNINGS = [
    ("linked-directory", FINE._replace(resolved_path="/e/t-0"), {}, EVERY),
    (
        "unread-policy",
        with_config(own={}, unread=NO_METADATA, command_line=("cleanup.policy=delete", "retention.ms=5")),
        {},
        {Action.RETAIN},
    ),
    (
        "unread-policy",
        with_config(own={}, unread=NO_METADATA, command_line=("cleanup.policy=compact,delete", "retention.ms=5")),
        {},
        {Action.RETAIN, Action.COMPACT},
    ),
    ("no-topic-id", FINE, {"makes_directory": True}, EVERY),
    ("marker-stays-away", FINE, {"drops_records": True}, {Action.RECOVER, Action.TRUNCATE}),
]


def test_every_rule_is_tried_here():
    assert {case[0] for case in (*CASES, *WARNINGS)} == {rule.name for rule in RULES}
    assert len({rule.name for rule in RULES}) == len(RULES)


@pytest.mark.parametrize("action", Action)
def test_nothing_is_wrong(action):
    assert judge(FINE, Intent(action, NOW)) == ()
    raise_refusals(())


@pytest.mark.parametrize(("name", "facts", "actions", "lifted_by"), CASES, ids=[case[0] for case in CASES])
@pytest.mark.parametrize("action", Action)
def test_refused(name, facts, actions, lifted_by, action):
    facts = as_asked(name, facts, action)
    verdicts = judge(facts, Intent(action, NOW))
    assert [verdict.rule.name for verdict in verdicts] == ([name] if action in actions else [])
    if not verdicts:
        return
    (verdict,) = verdicts
    expected = (UnsupportedFormat, ExitCode.UNSUPPORTED) if name == "foreign-layout" else (Refused, ExitCode.REFUSED)
    with pytest.raises(expected[0], match="/d/t-0") as raised:
        raise_refusals(verdicts)
    assert raised.value.exit_code == expected[1] == verdict.outcome.exit_code
    assert all(word in str(raised.value) for word in verdict.rule.flag.split()[:1])
    others = {"single_replica": True, "now_is_given": True, "is_named_alone": True}
    without = {key: value for key, value in others.items() if key not in lifted_by}
    assert not judge(facts, Intent(action, NOW, **without))[0].is_lifted
    if lifted_by:
        (lifted,) = judge(facts, Intent(action, NOW, **lifted_by))
        assert lifted.is_lifted
        assert lifted.outcome is RuleOutcome.WARNING
        if not lifted.rule.skips:
            assert lifted.message == verdict.reason  # it is still told, without the flag
        raise_refusals((lifted,))


@pytest.mark.parametrize(("name", "facts", "intent", "actions"), WARNINGS)
@pytest.mark.parametrize("action", Action)
def test_warned(name, facts, intent, actions, action):
    facts = as_asked(name, facts, action)
    verdicts = judge(facts, Intent(action, NOW, **intent))
    assert [verdict.rule.name for verdict in verdicts] == ([name] if action in actions else [])
    raise_refusals(verdicts)
    assert all(verdict.outcome.exit_code is ExitCode.OK for verdict in verdicts)


def names(facts, action, **intent):
    return [verdict.rule.name for verdict in judge(facts, Intent(action, NOW, **intent))]


def test_all_reasons_are_told_at_once():
    facts = FINE._replace(twins=("/e/t-0",), replication=MANY)
    with pytest.raises(Refused) as raised:
        raise_refusals(judge(facts, Intent(Action.APPEND, NOW)))
    assert "/e/t-0" in str(raised.value)
    assert "replicas 1, 2, 3; leader 2; in sync: 2, 3; this is 1, not in sync (to go on: --single-replica)" in str(
        raised.value
    )


@pytest.mark.parametrize(
    ("replication", "words"),
    [
        (MANY._replace(broker_id=2), "this is the leader, 2"),
        (MANY._replace(broker_id=3), "this is 3, in sync"),
        (MANY._replace(broker_id=9), "this is 9, none of them"),
        (MANY._replace(broker_id=None), "which of them this is, is not known"),
        (MANY._replace(leader=-1, isr=()), "no leader; none in sync"),
    ],
)
def test_the_place_of_this_broker(replication, words):
    assert words in replication.words


def test_only_files_that_change_in_place_matter():
    facts = FINE._replace(linked=("0.log", "9.log"))
    assert names(facts, Action.RECOVER, in_place=frozenset({"7.log"})) == []
    assert names(facts, Action.RECOVER, in_place=frozenset({"9.log"})) == ["linked-files"]


def test_a_file_of_now_is_not_of_the_future():
    assert names(FINE._replace(newest=NewestFile("0.log", NOW)), Action.PURGE) == []
    assert names(FINE._replace(newest=None), Action.PURGE) == []


def test_delete_may_be_assumed():
    """Named alone, the limit in --config, and the cleaner never had it."""
    facts = with_config(command_line=("retention.ms=5",), own={})
    assert names(facts, Action.RETAIN, is_named_alone=True) == []
    assert names(facts, Action.RETAIN) == ["no-policy"]
    assert names(facts, Action.COMPACT, is_named_alone=True) == ["no-policy"]
    compacted = facts._replace(is_in_cleaner_checkpoint=True)
    assert names(compacted, Action.RETAIN, is_named_alone=True) == ["no-policy"]
    assert names(compacted, Action.RETAIN, is_named_alone=True, has_own_limit=True) == []  # --free-bytes protects it
    elsewhere = with_config(own={}, static={"log.retention.ms": "5"})
    assert names(elsewhere, Action.RETAIN, is_named_alone=True) == ["no-policy"]
    assert names(with_config(command_line=("cleanup.policy=delete", "retention.ms=5"), own={}), Action.RETAIN) == []


def test_a_default_is_known_where_every_source_was_read():
    """The topic's record in the metadata log, and --broker-config: then nobody has overridden Kafka's default."""
    assert names(with_config(own={}, unread=()), Action.RETAIN) == []
    assert names(with_config(own={}, unread=()), Action.COMPACT, is_named_alone=True) == []
    assert names(with_config(own={}), Action.RETAIN) == ["no-policy"]
    with pytest.raises(Skipped) as raised:
        raise_refusals(judge(with_config(own={}, unread=NO_METADATA), Intent(Action.RETAIN, NOW)))
    assert str(raised.value) == (
        "/d/t-0: skipped: no source says which cleanup.policy this topic has. Give the cluster's metadata log with"
        " --metadata DIR (no metadata log was found) and the broker's server.properties with --broker-config FILE"
    )


def test_a_policy_that_changes_nothing_overrides_nothing():
    for policy, own in (
        ("delete", TOPIC_SETTINGS),
        ("compact,delete", {**COMPACTED, "cleanup.policy": "compact,delete"}),
    ):
        assert names(with_config(own=own, command_line=(f"cleanup.policy={policy}",)), Action.RETAIN) == []
    assert names(with_config(own=COMPACTED, command_line=("cleanup.policy=compact",)), Action.COMPACT) == []


def test_compaction_asks_nothing_else_of_a_topic_that_is_not_compacted():
    facts = with_config(own={}, unread=())._replace(tiered_because="so", twins=("/e/t-0",))
    assert names(facts, Action.COMPACT) == []
    assert names(facts._replace(config=config(own=COMPACTED)), Action.COMPACT) == ["twins", "tiered"]


def test_a_limit_is_not_needed_where_nothing_is_limited():
    assert names(with_config(own={"cleanup.policy": "compact"}), Action.RETAIN) == []
    assert names(with_config(own={"cleanup.policy": "delete"}), Action.RETAIN, has_own_limit=True) == []
    assert (
        names(with_config(own={"cleanup.policy": "delete"}, static={"log.retention.hours": "1"}), Action.RETAIN) == []
    )


def test_internal_topics_have_their_policy():
    offsets = FINE._replace(topic="__consumer_offsets", config=config("__consumer_offsets", own={}))
    assert names(offsets, Action.COMPACT) == []
    assert names(offsets, Action.RETAIN) == []  # compact only: no limit is needed
    share = FINE._replace(topic="__share_group_state", config=config("__share_group_state", own={}))
    assert names(share, Action.RETAIN) == []
    assert share.config.retention_ms == -1


def test_no_option_is_named_where_another_rule_refuses_for_good():
    facts = FINE._replace(is_metadata_log=True, replication=None, unknown_because="no metadata log was found")
    with pytest.raises(Refused) as refused:
        raise_refusals(judge(facts, Intent(Action.APPEND, NOW)))
    assert refused.value.details["reason"] == "only controllers may change the metadata log"


def test_settings_of_a_damaged_metadata_log():
    def damaged(**sources):
        return with_config(**sources)._replace(metadata_is_damaged=True)

    for own in ({}, {"cleanup.policy": "delete"}):
        given = damaged(command_line=("retention.ms=5", "cleanup.policy=delete"), own=own)
        assert names(given, Action.RETAIN) == ["overridden-policy"]  # the damage may hide a topic's own policy
    assert [verdict.is_lifted for verdict in judge(given, Intent(Action.RETAIN, NOW, is_named_alone=True))] == [True]
    assert names(damaged(command_line=("retention.ms=5",)), Action.RETAIN) == ["outdated-settings"]
    assert names(damaged(own={}, static={"log.retention.ms": "5", "log.cleanup.policy": "delete"}), Action.RETAIN) == [
        "outdated-settings"
    ]
    assert names(damaged(), Action.RECOVER) == []


def test_an_illegal_value_that_is_overruled_does_no_harm():
    own = {**TOPIC_SETTINGS, "retention.bytes": "x"}
    assert names(with_config(command_line=("retention.bytes=7",), own=own), Action.RETAIN) == []
    assert names(with_config(own={**TOPIC_SETTINGS, "segment.ms": "x"}), Action.RETAIN) == []


@given(
    st.builds(
        FINE._replace,
        foreign=st.sampled_from([None, "X"]),
        twins=st.sampled_from([(), ("/e",)]),
        replication=st.sampled_from([None, MANY, FINE.replication]),
        linked=st.sampled_from([(), ("0.log",)]),
        kind=st.sampled_from(DirectoryKind),
        config=st.sampled_from([FINE.config, config(own={}), config(own={}, command_line=("retention.ms=5",))]),
        is_in_cleaner_checkpoint=st.booleans(),
    ),
    st.builds(
        Intent,
        st.sampled_from(Action),
        st.integers(NOW - 9, NOW + 9),
        single_replica=st.booleans(),
        is_named_alone=st.booleans(),
    ),
)
def test_a_flag_never_makes_a_refusal(facts, intent):
    def refused(intent):
        return {verdict.rule.name for verdict in judge(facts, intent) if verdict.outcome is not RuleOutcome.WARNING}

    stronger = intent._replace(single_replica=True, now_is_given=True, is_named_alone=True, has_own_limit=True)
    assert refused(stronger) <= refused(intent)
    order = [rule.name for rule in RULES]
    found = [order.index(verdict.rule.name) for verdict in judge(facts, intent)]
    assert found == sorted(set(found))

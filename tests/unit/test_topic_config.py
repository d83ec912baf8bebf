"""Settings without the real Kafka: precedence, units, refusals of wrong ones, and what is derived from them."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.errors import UsageError
from kafkalog_cli.format.internal_topics.records import COORDINATOR_TOPICS
from kafkalog_cli.log.settings.topic_config import Origin, parse_topic_settings, read_broker_properties, resolve
from kafkalog_cli.log.settings.topic_config_table import (
    BROKER_KEYS,
    FIXED_SETTINGS,
    TOPIC_KEYS,
    ConfigType,
    Key,
    NumberRange,
    config_text,
    parse_config,
)

FS = RealFilesystem()
ORIGINS = (
    Origin.COMMAND_LINE,
    Origin.TOPIC,
    Origin.DYNAMIC_BROKER,
    Origin.DYNAMIC_DEFAULT_BROKER,
    Origin.STATIC_BROKER,
)


LAYERS = dict(
    zip(("command_line", "topic", "dynamic_broker", "dynamic_default_broker", "static_broker"), ORIGINS, strict=True)
)


def resolved(name="t", **layers):
    return resolve(name, {LAYERS[layer]: texts for layer, texts in layers.items()})


def test_defaults_are_kafka_s():
    config = resolved()
    assert len(config) == len(TOPIC_KEYS) + len(BROKER_KEYS) == 38 + 8
    assert {setting.origin for setting in config.values()} == {Origin.DEFAULT}
    assert (config.segment_bytes, config.segment_index_bytes, config.index_interval_bytes) == (1 << 30, 10 << 20, 4096)
    assert (config.segment_ms, config.retention_ms, config.retention_bytes) == (604800000, 604800000, -1)
    assert (config.cleanup_policy, config.delete_retention_ms, config.file_delete_delay_ms) == (
        ("delete",),
        86400000,
        60000,
    )
    assert (config.max_compaction_lag_ms, config["message.timestamp.type"].value, config["preallocate"].value) == (
        2**63 - 1,
        "CreateTime",
        False,
    )
    assert config.producer_id_expiration_ms == 86400000
    assert not config.is_configured("retention.ms")


@given(st.sets(st.sampled_from(["ms", "minutes", "hours"])))
def test_of_one_layer_the_finest_unit_wins(units):
    static = {
        f"log.retention.{unit}": str(at) for at, unit in enumerate(("ms", "minutes", "hours"), 2) if unit in units
    }
    expected = 2 if "ms" in units else 3 * 60_000 if "minutes" in units else 4 * 3_600_000 if units else 604800000
    assert resolved(static_broker=static).retention_ms == expected


def test_broker_names_and_units_become_those_of_topics():
    config = resolved(
        static_broker={
            "log.roll.hours": "2",
            "log.roll.jitter.hours": "1",
            "log.index.size.max.bytes": "96",
            "message.max.bytes": "7",
        }
    )
    assert (config.segment_ms, config["segment.jitter.ms"].value) == (7_200_000, 3_600_000)
    assert (config.segment_index_bytes, config.max_message_bytes) == (96, 7)
    assert config["segment.ms"].explanation == "segment.ms=7200000 (log.roll.hours=2, --broker-config)"
    assert config["retention.ms"].explanation == "retention.ms=604800000 (Kafka's default)"
    assert resolved(static_broker={"log.retention.minutes": "-3"}).retention_ms == -1
    assert resolved(static_broker={"log.retention.bytes": "-3"}).retention_bytes == -3


def test_names_that_cannot_be_dynamic_do_not_count_there():
    config = resolved(
        dynamic_broker={"log.retention.hours": "1", "log.roll.hours": "1"},
        dynamic_default_broker={"log.retention.minutes": "1"},
    )
    assert config["retention.ms"].origin is config["segment.ms"].origin is Origin.DEFAULT
    assert resolved(dynamic_broker={"log.cleaner.enable": "false"})["log.cleaner.enable"].value


def test_a_wrong_value_in_the_metadata_log_is_ignored_and_reported():
    config = resolved(
        topic={"retention.ms": "x"}, dynamic_broker={"log.retention.ms": "0"}, static_broker={"log.retention.ms": "7"}
    )
    assert config.retention_ms == 7
    assert [(p.name, p.origin, p.given_name) for p in config.problems] == [
        ("retention.ms", Origin.TOPIC, "retention.ms"),
        ("retention.ms", Origin.DYNAMIC_BROKER, "log.retention.ms"),
    ]
    assert "Not a number of type LONG" in config.problems[0].reason
    assert resolved(command_line={"retention.ms": "7"}, topic={"retention.ms": "x"}).problems == ()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["retention.ms"], "expected name=value"),
        (["=5"], "Unknown topic config name: "),
        (["retention.msx=5"], "Unknown topic config name: retention.msx"),
        (
            ["log.retention.hours=5"],
            r"Unknown topic config name: log.retention.hours \(a broker's; the topic's is retention.ms\)",
        ),
        (["retention.ms=-2"], "Value must be at least -1"),
        (["retention.ms=5", "segment.bytes=13"], "segment.bytes=13: Invalid value 13 .* Value must be at least 14"),
        (["cleanup.policy=deleted"], "String must be one of: compact, delete"),
        (["cleanup.policy=delete,delete"], "must not be duplicated"),
        (["min.cleanable.dirty.ratio=1.5"], "no more than 1"),
        (["compression.gzip.level=0"], "between 1 and 9 or equal to -1"),
        (["preallocate=yes"], "either true or false"),
    ],
)
def test_a_wrong_config_option_is_refused_with_its_reason(options, reason):
    with pytest.raises(UsageError, match=reason) as raised:
        parse_topic_settings(options)
    assert raised.value.exit_code == 2


@pytest.mark.parametrize(
    ("level", "is_legal"), [(-2, False), (-1, True), (0, False), (1, True), (9, True), (10, False)]
)
def test_gzip_levels_outside_of_java_s_are_refused(level, is_legal):
    """Java's Deflater has the levels 1 to 9, and -1 for its default (GzipCompression.MIN_LEVEL and others)."""
    with contextlib.nullcontext() if is_legal else pytest.raises(UsageError, match="between 1 and 9"):
        assert parse_topic_settings([f"compression.gzip.level={level}"])


def test_config_options_are_parsed_and_the_last_counts():
    found = parse_topic_settings(
        [
            "retention.ms=5",
            "cleanup.policy=compact , delete",
            "segment.bytes=3500",
            "retention.ms= 7 ",
            "internal.segment.bytes=9",
        ]
    )
    assert found["retention.ms"] == " 7 "
    config = resolved(command_line=found)
    assert (config.retention_ms, config.cleanup_policy, config.segment_bytes) == (7, ("compact", "delete"), 9)
    assert config.is_compacted
    assert config.is_deleted


def test_internal_segment_bytes_wins_but_not_over_the_command_line():
    """internal.segment.bytes wins (LogConfig.segmentSize), but not over what somebody now says."""
    assert resolved(topic={"internal.segment.bytes": "4000", "segment.bytes": "2000000"}).segment_bytes == 4000
    assert (
        resolved(topic={"internal.segment.bytes": "4000"}, static_broker={"log.segment.bytes": "2000000"}).segment_bytes
        == 4000
    )
    said = resolved(command_line={"segment.bytes": "3500"}, topic={"internal.segment.bytes": "4000"})
    assert said.segment_size[:3] == ("segment.bytes", 3500, Origin.COMMAND_LINE)
    assert resolved(topic={"segment.bytes": "100"}).segment_bytes == 100  # of a broker before 4.1


def test_roll_and_local_retention_are_derived():
    config = resolved(topic={"cleanup.policy": "compact", "max.compaction.lag.ms": "5", "segment.ms": "9"})
    assert config.max_segment_ms == 5
    assert resolved(topic={"max.compaction.lag.ms": "5", "segment.ms": "9"}).max_segment_ms == 9
    assert resolved(topic={"retention.ms": "5"}).local_retention_ms == 5
    assert resolved(topic={"retention.ms": "5", "local.retention.ms": "3"}).local_retention_ms == 3


def test_topics_of_the_coordinators_have_fixed_settings():
    assert set(FIXED_SETTINGS) == set(COORDINATOR_TOPICS)
    layers = {
        "command_line": {"cleanup.policy": "delete"},
        "topic": {"cleanup.policy": "x"},
        "static_broker": {"log.cleanup.policy": "delete"},
    }
    for topic in ("__consumer_offsets", "__transaction_state"):
        config = resolved(topic, **layers)
        assert config["cleanup.policy"][1:3] == (("compact",), Origin.INTERNAL_TOPIC)
        assert config.problems == ()
    share = resolved("__share_group_state", command_line={"retention.ms": "5", "cleanup.policy": "compact"})
    assert (share.cleanup_policy, share.retention_ms) == (("delete",), -1)


def test_fixed_settings_are_those_that_a_broker_made(corpus):
    from kafkalog_cli.log.settings.cluster_metadata import read_cluster_metadata

    metadata = read_cluster_metadata(FS, str(corpus / "internal" / "data"))
    for topic, fixed in FIXED_SETTINGS.items():
        own = metadata.topic_settings(topic)
        assert {name: config_text(value) for name, value in fixed.items()} == {name: own[name] for name in fixed}


def write(tmp_path, text):
    path = tmp_path / "server.properties"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("log.retention.ms=0", "unlimited"),
        ("log.roll.hours=0", "at least 1"),
        ("log.segment.bytes=x", "Not a number"),
        ("producer.id.expiration.ms=0", "at least 1"),
        (
            "log.cleaner.min.compaction.lag.ms=9\nlog.cleaner.max.compaction.lag.ms=5",
            "min.compaction.lag.ms=9 .* > max.compaction.lag.ms=5",
        ),
        ("a=\\u12", "Malformed"),
        ("log.cleaner.threads=0", "does not start with log.cleaner.threads=0"),
    ],
)
def test_a_file_with_which_no_broker_starts(tmp_path, text, reason):
    path = write(tmp_path, text)
    with pytest.raises(UsageError, match=reason) as raised:
        read_broker_properties(FS, path)
    assert path in str(raised.value)


def test_server_properties_of_a_broker_are_read(corpus, tmp_path):
    properties = read_broker_properties(FS, str(corpus / "crash-asis" / "server.properties"))
    config = resolved(static_broker=properties)
    assert (config.retention_ms, config.segment_index_bytes, config.max_message_bytes) == (-1, 4096, 20000000)
    odd = write(tmp_path, "# c\nlog.retention.\\\n   ms : 1\\u0030\nunknown.setting=x\nlog.retention.ms = 11\n")
    assert resolved(static_broker=read_broker_properties(FS, odd)).retention_ms == 11


@given(st.sampled_from(sorted(TOPIC_KEYS)), st.text())
def test_any_text_is_read_or_refused(name, text):
    key = TOPIC_KEYS[name]
    with contextlib.suppress(ValueError):
        value = parse_config(key, text)
        assert parse_config(key, config_text(value)) == pytest.approx(value, rel=0, abs=0, nan_ok=True)


@given(st.integers(-(2**70), 2**70))
def test_ranges_are_of_their_type(number):
    for kind, limit in ((ConfigType.INT, 2**31), (ConfigType.LONG, 2**63)):
        is_legal = -5 <= number < limit
        with contextlib.nullcontext() if is_legal else pytest.raises(ValueError, match="Invalid value"):
            assert parse_config(Key("x", kind, None, NumberRange(-5)), str(number)) == number


@pytest.mark.parametrize(("lag_ms", "policy", "roll_ms"), [(1, "compact", 1), (99, "compact", 50), (1, "delete", 50)])
def test_a_compaction_lag_rolls_compacted_topics_alone(lag_ms, policy, roll_ms):
    """LogConfig.maxSegmentMs."""
    settings = {"max.compaction.lag.ms": str(lag_ms), "cleanup.policy": policy, "segment.ms": "50"}
    assert resolved(command_line=settings).max_segment_ms == roll_ms


def test_the_two_lags_may_be_the_same(tmp_path):
    for smaller, fails in ((5, False), (6, True)):
        path = tmp_path / "server.properties"
        lags = f"log.cleaner.min.compaction.lag.ms={smaller}\nlog.cleaner.max.compaction.lag.ms=5\n"
        path.write_text(f"{lags}log.dirs=/x\n")
        if fails:
            with pytest.raises(UsageError, match=r"min.compaction.lag.ms.*6.*>.*5"):
                read_broker_properties(FS, str(path))
        else:
            assert read_broker_properties(FS, str(path))["log.dirs"] == "/x"


def test_only_below_zero_is_unlimited():
    name = Key("log.retention.minutes", ConfigType.INT, None, unit=60_000, below_zero_is_unlimited=True)
    assert [name.in_topic_units(value) for value in (-2, -1, 0, 1)] == [-1, -1, 0, 60_000]
    assert Key("x", ConfigType.INT, None, unit=60_000).in_topic_units(-1) == -60_000

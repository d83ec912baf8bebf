"""verify where offsets are missing: loss in a topic that is not compacted, and silence where compaction explains it."""

import shutil
from tempfile import NamedTemporaryFile

import pytest

from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.errors import KafkalogError, combined_exit_code
from kafkalog_cli.ops.checks.finding_kinds import FindingKind, Severity
from kafkalog_cli.ops.selection import Selection
from kafkalog_cli.ops.verify.task import Level
from tests.support.effort import DIAL
from tests.support.logs import BASE_TIME_MS, R, batch_v2, write_segment
from tests.support.metadata_logs import batches as metadata_batches
from tests.support.metadata_logs import partition as partition_record
from tests.support.metadata_logs import topic_id, value
from tests.support.verifying_paths import verified

NOW_MS = BASE_TIME_MS + 86_400_000
LOST = FindingKind.MISSING_OFFSETS
DELETE = {"cleanup.policy": "delete"}


def batch(base, count=2, last=None, **more):
    records = [R(base + i, BASE_TIME_MS + base + i, b"k", b"v") for i in range(count)]
    last = base + count - 1 if last is None else last
    return batch_v2(records, base=base, last=last, **more), last, BASE_TIME_MS + base + count - 1


def topic(root, segments, name="orders-0"):
    """A partition directory; a segment is a list of base offsets of batches of two records, or of batches."""
    folder = root / name
    folder.mkdir(parents=True)
    for written in segments:
        made = [one if isinstance(one, tuple) else batch(one) for one in written]
        base = written[0] if not isinstance(written[0], tuple) else made[0][1] - 1
        write_segment(folder, base, made)
    return folder


def log_dir(path, *, cleaner=(), log_start=()):
    path.mkdir()
    for name, lines in (("cleaner", cleaner), ("log-start", log_start)):
        text = "".join(f"{line}\n" for line in lines)
        (path / f"{name}-offset-checkpoint").write_text(f"0\n{len(lines)}\n{text}")
    (path / "meta.properties").write_text("version=0\nbroker.id=1\n")
    return path


def metadata_log(path, **configs):
    """The metadata log of topics by name with their own cleanup.policy (None: not set)."""
    records = []
    for number, (name, policy) in enumerate(configs.items(), 1):
        records += [value("TopicRecord", name=name, topicId=topic_id(number)), partition_record(topic_id(number))]
        if policy is not None:
            fields = {"resourceType": 2, "resourceName": name, "name": "cleanup.policy", "value": policy}
            records.append(value("ConfigRecord", **fields))
    folder = path / "__cluster_metadata-0"
    folder.mkdir(parents=True)
    log, _ = metadata_batches([records])
    (folder / f"{0:020}.log").write_bytes(log)
    return folder


def verify(*paths, level=Level.NORMAL, metadata=None, config=None, broker=None, forced=False, selection=None):
    with NamedTemporaryFile("w", suffix=".properties") as properties:
        properties.write("".join(f"{name}={value}\n" for name, value in (broker or {}).items()))
        properties.flush()
        results = verified(
            paths, level, kernels=KernelChoice(forced=forced), selection=selection, config=config, now_ms=NOW_MS,
            metadata=None if metadata is None else str(metadata), broker_config=properties.name if broker else None,
        )  # fmt: skip
    assert not [result for result in results if isinstance(result, KafkalogError)], results
    return results


def lost(*paths, **options):
    """The offsets that are said to be lost, and the exit code with which the gaps alone would end."""
    found = [one for result in verify(*paths, **options) for one in result.findings if one.kind is LOST]
    assert all(one.severity is Severity.WARNING for one in found)
    return [(one.first_offset, one.last_offset) for one in found]


MIDDLE_GONE = [[0, 2, 4], [10, 12]]
DELETE, COMPACT = {"cleanup.policy": "delete"}, {"cleanup.policy": "compact"}
BROKER = {"log.dirs": "/data"}


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("forced", [False, True])
def test_a_missing_segment_is_lost_offsets(tmp_path, level, forced):
    if forced:
        pytest.importorskip("numba")
    folder = topic(tmp_path, MIDDLE_GONE)
    for config, expected in ((None, [(6, 9)]), (DELETE, [(6, 9)]), (COMPACT, [])):
        assert lost(folder, level=level, config=config, forced=forced) == expected


def test_the_finding_says_what_why_and_what_next(tmp_path):
    folder = topic(tmp_path, MIDDLE_GONE)
    for config, why in (
        (None, "no source says whether this topic is compacted"),
        (DELETE, "this topic is not compacted"),
    ):
        (result,) = verify(folder, config=config)
        (found,) = [one for one in result.findings if one.kind is LOST]
        assert found.message == f"offsets 6 to 9 (4 offsets) are missing: no segment covers them, and {why}"
        assert found.path == str(folder / f"{10:020}.log")
        assert "an earlier compaction may explain the gap" in found.broker_effect
        assert f"`kafkalog verify {folder} --config cleanup.policy=compact`" in found.next_step
        assert "compare with another replica or a backup (--against)" in found.next_step
        assert result.exit_code == 3


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        ([[0, 2, 4], [6, 8]], []),
        ([[0, 2, 4], [7]], [(6, 6)]),  # a single offset
        ([[0], [4], [10]], [(2, 3), (6, 9)]),
        ([[6, 8], [10]], []),  # what retention removed at the start
    ],
)
def test_how_much_is_missing(tmp_path, level, segments, expected):
    assert lost(topic(tmp_path, segments), level=level) == expected


@pytest.mark.parametrize("level", Level)
def test_a_segment_that_was_emptied_has_lost_its_offsets(tmp_path, level):
    """The name of the file is there: its records are not."""
    folder = topic(tmp_path, [[0, 2, 4], [6, 8], [10, 12]])
    (folder / f"{6:020}.log").write_bytes(b"")
    assert lost(folder, level=level, config=DELETE) == [(6, 9)]


@pytest.mark.parametrize("level", Level)
def test_what_delete_records_let_go_is_no_loss(tmp_path, level):
    for number, (start, expected) in enumerate(((10, []), (11, []), (8, [(8, 9)]), (0, [(6, 9)]))):
        root = log_dir(tmp_path / str(number), log_start=[f"orders 0 {start}"])
        topic(root, MIDDLE_GONE)
        assert lost(root, level=level) == expected


# ---- where the policy comes from


@pytest.mark.parametrize(
    ("own", "broker", "expected"),
    [
        ("delete", {}, "not compacted"),
        ("compact", {}, None),
        ("compact,delete", {}, None),
        (None, {}, "no source"),  # server.properties may say otherwise
        (None, BROKER, "not compacted"),  # all sources were read: Kafka's default
        (None, {"log.cleanup.policy": "compact"}, None),
        ("delete", {"log.cleanup.policy": "compact"}, "not compacted"),
    ],
)
def test_the_sources_of_the_policy(tmp_path, own, broker, expected):
    root = log_dir(tmp_path / "disk")
    topic(root, MIDDLE_GONE)
    metadata = metadata_log(tmp_path / "meta", orders=own)
    for level in Level:
        found = [
            one
            for result in verify(root, metadata=metadata, broker=broker, level=level)
            for one in result.findings
            if one.kind is LOST
        ]
        assert [expected in one.message for one in found] == ([] if expected is None else [True])


def test_without_a_metadata_log_the_brokers_own_setting_counts(tmp_path):
    folder = topic(tmp_path, MIDDLE_GONE)
    assert lost(folder, broker={"log.cleanup.policy": "compact"}) == []
    assert lost(folder, broker=BROKER) == [(6, 9)]


def test_delete_for_many_topics_does_not_override_a_topics_own_compact(tmp_path):
    root = log_dir(tmp_path / "disk", cleaner=["cleaned 0 4"])
    for name in ("orders-0", "customers-0", "cleaned-0"):
        topic(root, MIDDLE_GONE, name)
    metadata = metadata_log(tmp_path / "meta", orders=None, customers="compact")
    found = [one for one in verify(root, metadata=metadata, config=DELETE) if any(f.kind is LOST for f in one.findings)]
    assert [one.topic for one in found] == ["orders"]
    named = Selection(topics=frozenset({"customers"}))
    assert lost(root, metadata=metadata, config=DELETE, selection=named) == [(6, 9)]
    assert lost(root / "cleaned-0", config=DELETE) == [(6, 9)]


# ---- what shows that the cleaner was here


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize(
    "segments",
    [
        [[0, 4], [10, 12]],  # a gap inside a segment
        [[0, batch(2, 1, 3)], [10, 12]],  # fewer records than offsets
        [[0, batch(2, bits=0x40)], [10, 12]],  # a delete horizon
    ],
)
def test_signs_of_the_cleaner_explain_a_gap_unless_the_policy_is_known(tmp_path, level, forced, segments):
    if forced:
        pytest.importorskip("numba")
    folder = topic(tmp_path, segments)
    assert lost(folder, level=level, forced=forced) == []
    assert (4, 9)[1] in [last for _, last in lost(folder, level=level, config=DELETE, forced=forced)]


def test_a_batch_of_damaged_count_is_no_sign_of_the_cleaner(tmp_path):
    data, last, time = batch(2)
    data = data[:57] + b"\0\0\0\0" + data[61:]
    folder = topic(tmp_path, [[0, (data, last, time)], [10, 12]])
    assert lost(folder, level=Level.QUICK) == [(4, 9)]


@pytest.mark.parametrize("level", Level)
def test_the_cleaners_checkpoint_and_internal_topics_are_signs(tmp_path, level):
    root = log_dir(tmp_path / "disk", cleaner=["orders 0 4"])
    for name in ("orders-0", "__consumer_offsets-3", "__transaction_state-1"):
        topic(root, MIDDLE_GONE, name)
    assert lost(root, level=level) == []
    topic(root, MIDDLE_GONE, "orders-1")
    assert lost(root, level=level) == [(6, 9)]


def test_segments_that_the_cleaner_is_replacing(tmp_path):
    folder = topic(tmp_path, MIDDLE_GONE)
    (folder / f"{6:020}.log.deleted").write_bytes(b"")
    assert lost(folder) == []
    assert lost(folder, config=DELETE) == [(6, 9)]


def test_directories_that_a_broker_has_marked_are_left_alone(tmp_path):
    name = f"orders-0.{'a' * 32}-delete"
    assert lost(topic(tmp_path, MIDDLE_GONE, name)) == []


def test_every_compacted_log_of_real_brokers_is_silent_without_any_setting(corpus, tmp_path):
    """Also where the root of the log directory, with its checkpoints, was not copied along.

    But for message sets of old formats: their headers show no sign of the cleaner.
    """
    cases = [*corpus.glob("compact-*"), *corpus.glob("internal"), *corpus.glob("txn")]
    found = sorted(path for case in cases for path in case.glob("*/*-[0-9]*") if list(path.glob("*.log")))
    folders = [path for path in found if not path.name.endswith("-delete")]
    assert len(folders) > 20
    for at, folder in enumerate(DIAL.some(folders)):
        alone = tmp_path / f"{at}" / folder.name
        shutil.copytree(folder, alone)
        for level in (Level.QUICK, Level.NORMAL):
            assert folder.parents[1].name == "compact-old" or lost(alone, level=level) == [], folder
            assert lost(folder.parent, level=level) == [], folder


def test_a_missing_segment_of_a_real_broker(corpus):
    for case in ("clean-gap", "crash-gap"):
        for level in Level:
            results = verify(corpus / case / "before", level=level)
            assert combined_exit_code([result.exit_code for result in results]) == 3
            assert len([one for result in results for one in result.findings if one.kind is LOST]) == 1


def without_start(root, *, segments=([0, 2], [4, 6], [8]), epoch_start=0, line=None, clean=True, removed=1, cleaner=()):
    """A topic whose first segments were removed by hand, with what its broker had written."""
    lines = [] if line is None else [f"orders 0 {line}"]
    folder = topic(log_dir(root, log_start=lines, cleaner=cleaner), segments)
    (root / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 10\n")
    if clean:
        (root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    if epoch_start is not None:
        (folder / "leader-epoch-checkpoint").write_text(f"0\n1\n0 {epoch_start}\n")
    for path in sorted(folder.glob("*.log"))[:removed]:
        path.unlink()
    return folder


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({}, [(0, 3)]),
        ({"removed": 2}, [(0, 7)]),
        ({"clean": False}, [(0, 3)]),
        ({"line": 1}, [(1, 3)]),
        ({"epoch_start": 1, "line": 1}, [(1, 3)]),
        ({"epoch_start": None, "line": 1}, [(1, 3)]),
        ({"epoch_start": 3, "line": None}, [(3, 3)]),
        # A broker let the offsets go, or nothing says that they were there.
        ({"removed": 0}, []),
        ({"epoch_start": 4}, []),
        ({"epoch_start": None}, []),
        ({"line": 4}, []),
        ({"line": 5, "epoch_start": 5}, []),
        ({"epoch_start": None, "line": 1, "clean": False}, []),  # the line may be older than the last retention
        ({"cleaner": ["orders 0 4"]}, []),
    ],
    ids=str,
)
def test_a_missing_start(tmp_path, state, expected):
    without_start(tmp_path / "data", **state)
    assert lost(tmp_path / "data", level=Level.QUICK, config=DELETE) == expected
    assert lost(tmp_path / "data", level=Level.QUICK, config={**DELETE, "remote.storage.enable": "true"}) == []
    assert lost(tmp_path / "data", level=Level.QUICK, config={"cleanup.policy": "compact"}) == []
    assert lost(tmp_path / "data", level=Level.QUICK) == []


@pytest.mark.parametrize("level", [Level.NORMAL, Level.DEEP])
def test_every_level_sees_a_missing_start(tmp_path, level):
    without_start(tmp_path / "data")
    assert lost(tmp_path / "data", level=level, config=DELETE) == [(0, 3)]


def test_a_start_that_a_broker_is_deleting(tmp_path):
    folder = without_start(tmp_path / "data", clean=False)
    (folder / f"{0:020}.log.deleted").write_bytes(b"")
    assert lost(tmp_path / "data", config=DELETE) == []


def test_a_missing_start_says_what_is_known(tmp_path):
    def found(**options):
        return [one for result in verify(tmp_path / "data", **options) for one in result.findings if one.kind is LOST]

    without_start(tmp_path / "data")
    (one,) = found(config=DELETE)
    assert one.message == (
        "offsets 0 to 3 (4 offsets) are missing: the log begins at 4, leader-epoch-checkpoint remembers earlier records,"
        " and this topic is not compacted. In a tiered topic they may be in the remote storage"
    )
    assert "--config remote.storage.enable=true" in one.next_step
    (one,) = found(metadata=metadata_log(tmp_path / "metadata", orders="delete"))
    assert one.message.endswith("and this topic is not compacted")
    assert "remote" not in one.next_step


@pytest.mark.parametrize("last", [1, 2, 3])
def test_missing_offsets_at_the_end_of_a_batch(tmp_path, last):
    topic(tmp_path / "data", [[batch(0, 2, last=last), batch(last + 1)]])
    assert lost(tmp_path / "data", level=Level.DEEP, config=DELETE) == ([(2, last)] if last > 1 else [])

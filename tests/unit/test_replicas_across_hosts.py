"""Replicas on several hosts, compared by their digests: what `verify --against` says of both logs in one place."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.broker.leader_epochs import LeaderEpochs, truncation_offset
from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.format.checkpoint import EpochEntry
from kafkalog_cli.format.limits import DEFAULT_LIMITS
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.ops.check.checks.partition_check import ReadContext
from kafkalog_cli.ops.check.verify import replica_facts as facts
from kafkalog_cli.ops.check.verify import replicas_across_hosts as across
from kafkalog_cli.ops.check.verify.against import compare
from kafkalog_cli.ops.check.verify.partition import verify_partition
from kafkalog_cli.ops.check.verify.places import TopicFacts
from kafkalog_cli.ops.check.verify.task import VerifyTask
from kafkalog_cli.ops.choices import Level
from kafkalog_cli.ops.look.listing.root import root_above
from kafkalog_cli.output.findings import verification_summary
from tests.kafka.three_brokers import unpack
from tests.model.test_verify_against import B, log, two_replicas, write

FS = RealFilesystem()
DIVERGED, BEHIND, MISSING, GONE = "diverged", "replica-behind", "records-missing", "not-comparable"


def opened(folder):
    return open_partition(FS, str(folder))


def task_of(folder, *, is_compacted, level=Level.NORMAL):
    known = TopicFacts(is_compacted=is_compacted)
    return VerifyTask(opened(folder), level, 0, root_above(FS, str(folder)), known, with_facts=True)


def facts_of(folder, *, is_compacted=False, level=Level.NORMAL):
    """What a host sends, as it arrives."""
    task = task_of(folder, is_compacted=is_compacted, level=level)
    return pickle.loads(pickle.dumps(verify_partition(ReadContext(FS), task).facts))


class Hosts:
    """The hosts a, b, … with a replica each; `questions` counts the steps in which they were asked for batches."""

    def __init__(self, *folders, silent=(), **options):
        self.replicas = [
            facts.Replica(host, facts_of(one, **options)) for host, one in zip("abc", folders, strict=False)
        ]
        self.silent, self.steps = silent, []

    def ask(self, questions):
        self.steps.append({key[0]: len(one.ranges) for key, one in questions.items()})
        answers = {}
        for key, question in pickle.loads(pickle.dumps(questions)).items():
            if key[0] not in self.silent:
                answers[key] = pickle.loads(pickle.dumps(facts.read_rows(DEFAULT_LIMITS, question)))
        return answers

    def compared(self):
        (result,) = across.compare_across_hosts(self.replicas, Level.NORMAL, self.ask)
        return result


def findings(result):
    return [one for one in result.findings if one.kind.value != "more-complete"]


def kinds(result):
    return [one.kind.value for one in findings(result)]


def narrow(patch, *widths):
    """Ranges of other widths, as in a log that is a thousand times as long."""
    names = (facts, "_SHIFT"), (facts, "_MOST_RANGES"), (across, "_FIRST_RANGES")
    for (module, name), value in zip(names, widths, strict=True):
        patch.setattr(module, name, value)


def without_hosts(found):
    texts = []
    for text in (found.path, found.message, found.expected, found.got):
        for host in "ab":
            text = text.replace(f"{host}:/", "/")
        texts.append(text)
    return found.kind, *texts, found.position, found.first_offset, found.last_offset


@given(two_replicas(), st.sampled_from([(13, 2048, 4), (2, 2, 1), (0, 3, 1), (1, 1000, 1)]))
def test_hosts_give_the_findings_of_verify_against(tmp_path_factory, pair, widths):
    root = tmp_path_factory.mktemp("pair")
    folders = [write(root / name, *made) for name, made in zip("ab", pair, strict=True)]
    with pytest.MonkeyPatch.context() as patch:
        narrow(patch, *widths)
        result = Hosts(*folders).compared()
    logs = [facts_of(one).log for one in folders]
    best = 1 if logs[1].rank > logs[0].rank else 0
    expected = compare(opened(folders[1 - best]), opened(folders[best]), DEFAULT_LIMITS, False, 0)
    ours = [without_hosts(one) for one in findings(result)]
    wanted = [without_hosts(one) for one in expected if one.kind.value != "more-complete"]
    assert ours == wanted, (ours, wanted)


def test_three_replicas_are_compared_with_the_most_complete_one(tmp_path):
    whole = log([3] * 12)
    lost = write(tmp_path / "b", [*whole[:4], *whole[7:]], (0, 4))
    result = Hosts(write(tmp_path / "a", whole, (0, 7)), lost, write(tmp_path / "c", whole[:10])).compared()
    assert result.hosts == ("a", "b", "c")
    assert (result.path, result.exit_code) == ("topic-0", 4)
    missing, behind = findings(result)
    assert (missing.path, missing.first_offset, missing.last_offset) == (f"b:{lost}", 12, 20)
    assert missing.message == f"offsets 12 to 20 are missing, and a:{tmp_path}/a/topic-0 has them"
    assert missing.next_step.startswith("if the other replica is in sync, on b, stop the broker and move the directory")
    assert f"Else, on b, `mv -nT {lost} " in missing.next_step
    assert f"`rsync -a a:{tmp_path}/a/topic-0/ {lost}` restore it from the other" in missing.next_step
    assert (behind.kind.value, behind.path) == (BEHIND, f"c:{tmp_path}/c/topic-0")
    (verdict,) = [one.message for one in result.findings if one.kind.value == "more-complete"]
    assert verdict.startswith(f"a:{tmp_path}/a/topic-0 is more complete: a:")
    assert "leader epoch 0, no damage, 9 offsets missing; c:" in verdict
    assert verification_summary(result) == (
        "topic-0: 3 replicas on a, b, c: b lacks offsets 12 to 20; c lacks offsets 30 to 35"
    )


def test_replicas_that_are_alike_are_not_asked_for_batches(tmp_path):
    whole = log([3] * 12)
    hosts = Hosts(
        *(write(tmp_path / name, whole, edges) for name, edges in (("a", (0, 5)), ("b", (0, 3, 9)), ("c", (0,))))
    )
    result = hosts.compared()
    assert (kinds(result), hosts.steps, int(result.exit_code)) == ([], [], 0)
    assert verification_summary(result).endswith("a, b, c: the replicas agree in all offsets that they share")


def test_only_the_batches_up_to_a_divergence_are_asked_for(tmp_path, monkeypatch):
    narrow(monkeypatch, 1, 1000, 1)
    ours, theirs = log([2] * 500), log([2] * 500)
    for number in range(3, 500):
        theirs[number] = log([2] * 500, seed=b"other")[number]
    hosts = Hosts(write(tmp_path / "a", ours), write(tmp_path / "b", theirs))
    (found,) = findings(hosts.compared())
    assert (found.kind.value, found.first_offset) == (DIVERGED, 6)
    assert hosts.steps == [{"a": 1, "b": 1}]


def test_a_loss_over_many_ranges_is_counted_whole(tmp_path, monkeypatch):
    narrow(monkeypatch, 1, 1000, 1)
    whole = log([2] * 300)
    hosts = Hosts(write(tmp_path / "a", whole), write(tmp_path / "b", [*whole[:20], *whole[220:]], (0, 20)))
    (found,) = findings(hosts.compared())
    assert (found.kind.value, found.first_offset, found.last_offset) == (MISSING, 40, 439)
    assert [step["a"] for step in hosts.steps] == [1, 8, 64, 200]


def with_epochs(folder, *entries):
    lines = "".join(f"{epoch} {start}\n" for epoch, start in entries)
    (folder / "leader-epoch-checkpoint").write_text(f"0\n{len(entries)}\n{lines}")
    return folder


def test_other_leader_epochs_give_what_each_replica_loses_as_a_follower(tmp_path):
    shared = log([2, 2, 2])
    ours = [*shared, *(B([log([20])[0].records[6 + one]], 1) for one in range(5))]
    theirs = [*shared, B(log([20])[0].records[6:9], 2)]
    folders = (
        with_epochs(write(tmp_path / "a", ours), (0, 0), (1, 6)),
        with_epochs(write(tmp_path / "b", theirs), (0, 0), (2, 6)),
    )
    found, _ = findings(Hosts(*folders).compared())
    assert found.message.startswith("the replicas diverge: from offset 6 on the leader epoch is 1 here and 2 there")
    assert found.broker_effect == (
        f"as a follower of b:{folders[1]}, a:{folders[0]} cuts its log off at offset 6, and loses 5 offsets;"
        f" as a follower of a:{folders[0]}, b:{folders[1]} cuts its log off at offset 6, and loses 3 offsets"
    )


def test_replicas_of_real_brokers_diverge_after_an_unclean_election(tmp_path):
    """Broker 3 was elected out of sync: the others cut their logs where it did not follow them."""
    unpack(tmp_path)
    for number in range(4):
        name = f"orders-{number}"
        found = findings(Hosts(*(tmp_path / f"broker-{one}" / name for one in (1, 2, 3))).compared())
        effects = [one.broker_effect for one in found if one.kind.value == DIVERGED]
        assert len(effects) == 2
        for broker, effect in zip("12", effects, strict=True):
            assert f"{tmp_path}/broker-{broker}/{name} cuts its log off at offset 100, and" in effect
    folders = [tmp_path / f"broker-{one}" / "users-1" for one in (1, 2, 3)]
    missing, behind = findings(Hosts(*folders).compared())
    assert (missing.kind.value, missing.path) == (MISSING, f"b:{folders[1]}")
    assert (behind.kind.value, "1 damaged place" in behind.message) == (BEHIND, True)


def test_a_compacted_topic_is_compared_from_where_no_host_has_cleaned(tmp_path):
    whole = log([4] * 10)
    cleaned = [batch.thinned(lambda offset: offset % 3 == 0) for batch in whole[:5]]
    folders = write(tmp_path / "a", whole), write(tmp_path / "b", [*cleaned, *whole[5:]])
    result = Hosts(*folders, is_compacted=True).compared()
    (found,) = findings(result)
    assert (found.kind.value, int(result.exit_code)) == (GONE, 0)
    assert found.message == "below offset 20 the cleaner has worked: only the leader epochs are compared there"
    lost = write(tmp_path / "c", [*cleaned, *whole[5:7], *whole[8:]])
    found = findings(Hosts(folders[0], lost, is_compacted=True).compared())
    # The gap that a loss leaves is also a trace of the cleaner: below it, nothing is said.
    assert [one.kind.value for one in found] == [GONE]
    (tmp_path / "c" / "cleaner-offset-checkpoint").write_text("0\n1\ntopic 0 20\n")
    other = [*whole[:6], B([one._replace(value=b"x") for one in whole[6].records]), *whole[7:]]
    found = findings(Hosts(folders[1], write(tmp_path / "d", other), is_compacted=True).compared())
    assert [(one.kind.value, one.first_offset) for one in found] == [(DIVERGED, 24), (GONE, None)]


def test_epochs_below_what_was_cleaned_are_still_compared(tmp_path):
    whole = log([4] * 4, [0, 0, 1, 1])
    folders = [write(tmp_path / name, [one.thinned(lambda offset: offset % 3 == 0) for one in whole]) for name in "ab"]
    (folders[1] / f"{0:020}.log").write_bytes(
        b"".join(one.thinned(lambda offset: offset % 5 == 0).written()[0] for one in log([4] * 4, [0, 0, 2, 2]))
    )
    with_epochs(folders[0], (0, 0), (1, 8))
    with_epochs(folders[1], (0, 0), (2, 8))
    found = findings(Hosts(*folders, is_compacted=True).compared())
    assert [(one.kind.value, one.first_offset) for one in found] == [(BEHIND, None), (DIVERGED, 8), (GONE, None)]
    assert "cuts its log off at offset 8, and loses 8 offsets" in found[1].broker_effect


def test_a_host_that_does_not_answer_leaves_its_replica_uncompared(tmp_path):
    whole = log([3] * 12)
    folders = [
        write(tmp_path / name, made) for name, made in (("a", whole), ("b", whole[:3] + whole[5:]), ("c", whole))
    ]
    result = Hosts(*folders, silent="b").compared()
    (found,) = findings(result)
    assert (found.kind.value, found.path) == ("not-compared", f"b:{folders[1]}")
    assert found.message == "not compared: b has not answered when asked for batches of topic-0"


def test_replicas_with_other_topic_ids_are_not_compared(tmp_path):
    folders = [write(tmp_path / name, log([2, 2])) for name in "ab"]
    for folder, topic_id in zip(folders, ("AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"), strict=True):
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    (found,) = findings(Hosts(*folders).compared())
    assert found.kind.value == "not-compared"
    assert (
        "are of different topics: the topic ids are AAAAAAAAAAAAAAAAAAAAAg and AAAAAAAAAAAAAAAAAAAAAQ" in found.message
    )


def test_the_headers_of_the_level_quick_give_the_same_differences(tmp_path):
    whole = log([3] * 12)
    folders = write(tmp_path / "a", whole), write(tmp_path / "b", [*whole[:4], *whole[7:]], (0, 4))
    found = [findings(Hosts(*folders, level=level).compared()) for level in (Level.QUICK, Level.NORMAL)]
    assert found[0] == found[1] != []


@pytest.mark.parametrize(
    ("follower", "end", "leader", "leader_end", "cut"),
    [
        ([(0, 0)], 10, [(0, 0)], 8, 8),
        ([(0, 0)], 8, [(0, 0)], 10, 8),
        ([(0, 0), (1, 6)], 11, [(0, 0), (2, 6)], 9, 6),
        # KIP-279: the leader does not know epoch 3, and its answer, 1, is unknown to the follower.
        ([(0, 0), (2, 10), (3, 20)], 25, [(0, 0), (1, 8), (4, 15)], 30, 8),
        ([(5, 0)], 10, [(3, 0)], 10, None),
        ([], 10, [(0, 0)], 10, None),
    ],
)
def test_a_follower_cuts_its_log_where_kafka_does(follower, end, leader, leader_end, cut):
    """AbstractFetcherThread.getOffsetTruncationState."""
    epochs = [LeaderEpochs(EpochEntry(*one) for one in side) for side in (follower, leader)]
    assert truncation_offset(epochs[0], end, epochs[1], leader_end) == cut

"""`kafkalog append` to several partitions of a topic: which record goes where, what must be known, one undo each."""

import json

import pytest
from kafka.partitioner.default import murmur2

from tests.cli.test_append import NOW, records
from tests.support.commands import kafkalog, tree, writable_copy
from tests.support.metadata_logs import batches, partition, topic_id, value
from tests.support.naive_reader import read_batches, read_records

COUNT = 3


@pytest.fixture
def root(corpus, tmp_path):
    """A log directory with a topic of three partitions beside another one."""
    root = writable_copy(corpus / "txn" / "data", tmp_path / "data")
    for number in range(COUNT):
        assert kafkalog("append", root / f"many-{number}", "--topic-id", ID, *NOW, stdin=b'{"value":null}\n')[0] == 0
    return root


ID = "kFQ3lUTFSsWWjXbfvbOpDw"
KEYS = [b"key %d" % at for at in range(60)] + [b""]


def paths(root, *numbers):
    return [root / f"many-{number}" for number in numbers]


def values(root, number):
    return [value for _, _, _, value, _ in records(root / f"many-{number}", 1)]


def line(**fields):
    return json.dumps(fields).encode() + b"\n"


@pytest.mark.parametrize("by_topic", [False, True])
def test_by_key(root, by_topic):
    named = [root, "--topic", "many"] if by_topic else paths(root, 2, 0, 1)
    stdin = b"".join(line(key=key.decode(), value=key.decode()) for key in KEYS)
    code, out, err = kafkalog("append", *named, *NOW, stdin=stdin)
    assert code == 0, err
    for number in range(COUNT):
        wanted = [key for key in KEYS if (murmur2(key) & 0x7FFFFFFF) % COUNT == number]
        assert len(wanted) > 5
        assert values(root, number) == wanted
    assert len(out.splitlines()) == COUNT + 1
    assert out.splitlines()[-1].startswith(f"{COUNT} partitions: {COUNT} changed, {len(KEYS)} records appended, ")
    assert kafkalog("verify", root, "--level", "deep")[0] == 0


def test_without_a_key(root):
    """By the partition that it names; else a batch for one, the next batch for the next."""
    stdin = b"".join(line(value=f"{at}", partition=at % 4) for at in range(8))
    assert kafkalog("append", *paths(root, 0, 1, 2), *NOW, stdin=stdin)[0] == 0
    assert [values(root, number) for number in range(COUNT)] == [[b"0", b"3", b"4", b"7"], [b"1", b"5"], [b"2", b"6"]]
    argv = ("append", *paths(root, 0, 1, 2), "--input", "lines", "--batch-bytes", 100, *NOW)
    assert kafkalog(*argv, stdin=b"x" * 60 + b"\n" + (b"y" * 60 + b"\n") * 3 + b"z\n")[0] == 0
    assert [len(values(root, number)) for number in range(COUNT)] == [6, 4, 3]


def test_one_undo_each(root):
    before = tree(root)
    stdin = b"".join(line(key=key.decode()) for key in KEYS)
    code, out, _ = kafkalog("append", *paths(root, 0, 1, 2), *NOW, stdin=stdin)
    assert code == 0
    for text in out.splitlines()[:-1]:
        assert kafkalog(*text.rpartition("kafkalog ")[2].split(), *NOW[:2])[0] == 0
    assert {name: facts[:2] for name, facts in tree(root).items()} == {
        name: facts[:2] for name, facts in before.items()
    }


def test_files_behind_the_partitions(root, tmp_path):
    (tmp_path / "one").write_bytes(b"k=1\n")
    argv = ("append", *paths(root, 0, 1, 2), tmp_path / "one", "-", "--input", "lines", "--key-separator", "=", *NOW)
    assert kafkalog(*argv, stdin=b"k=2\n")[0] == 0
    found = [values(root, number) for number in range(COUNT)]
    assert sorted(map(len, found)) == [0, 0, 2]
    assert [b"1", b"2"] in found


def test_a_dry_run(root):
    before = tree(root)
    stdin = b"".join(line(key=key.decode()) for key in KEYS)
    code, out, _ = kafkalog("append", *paths(root, 0, 1, 2), *NOW, "--dry-run", "--format", "json", stdin=stdin)
    found = [json.loads(text) for text in out.splitlines()]
    assert (code, sum(one.get("records", 0) for one in found[:-1]), found[-1]["records"]) == (0, len(KEYS), len(KEYS))
    assert tree(root) == before


@pytest.mark.parametrize(
    ("numbers", "code", "reason"),
    [((0, 1), 14, "give all of 0 to 2 (missing: 2)"), ((1, 2), 14, "(missing: 0)")],
)
def test_the_number_must_be_known(root, numbers, code, reason):
    before = tree(root)
    found, _, err = kafkalog("append", *paths(root, *numbers), *NOW, stdin=b'{"value":null}\n')
    assert (found, reason in err) == (code, True), err
    assert tree(root) == before


def test_bad_input_appends_to_none(root):
    before = tree(root)
    code, _, err = kafkalog("append", *paths(root, 0, 1, 2), *NOW, stdin=line(key="a") * 9 + b"nonsense\n")
    assert (code, "standard input: line 10: no JSON" in err) == (1, True)
    assert tree(root) == before


def test_partitions_of_two_topics(root):
    assert kafkalog("append", root / "many-0", root / "idem-0", *NOW)[0] == 2
    assert kafkalog("append", root, *NOW, stdin=b'{"value":null}\n')[0] == 2  # nobody chose that topic
    assert kafkalog("append", *paths(root, 0, 1, 2), "--topic-id", ID[::-1], *NOW)[0] == 2


@pytest.mark.parametrize(("count", "code"), [(COUNT, 0), (COUNT + 2, 1)])
def test_the_metadata_log_tells_the_number(root, count, code):
    """A key of a partition that is not given is refused."""
    topic = topic_id(1)
    groups = [[value("TopicRecord", name="many", topicId=topic)], [partition(topic, at) for at in range(count)]]
    log = root / "__cluster_metadata-0" / f"{0:020d}.log"
    log.parent.mkdir()
    log.write_bytes(batches(groups)[0])
    stdin = b"".join(line(key=key.decode()) for key in KEYS)
    before = tree(root)
    argv = ("append", *paths(root, *range(COUNT)), *NOW)
    found, _, err = kafkalog(*argv, stdin=stdin)
    assert found == code, err
    assert ("which is not given" in err, tree(root) == before) == (bool(code), bool(code))
    if not code:
        first, _, err = kafkalog(*argv[:3], *NOW, stdin=stdin)  # some are enough then, for keys of theirs
        assert (first, "which is not given" in err) == (1, True)
        fits = [key for key in KEYS if (murmur2(key) & 0x7FFFFFFF) % COUNT < 2]
        assert kafkalog(*argv[:3], *NOW, stdin=b"".join(line(key=key.decode()) for key in fits))[0] == 0


# -- one transaction over several


def markers(root, number):
    """(producer, whether it commits, offset) of each."""
    found = []
    for path in sorted((root / f"many-{number}").glob("*.log")):
        for batch in read_batches(data := path.read_bytes()):
            if batch.attributes & 0x20:
                (record,) = read_records(data, batch)
                found.append((batch.producer_id, record.key[3] == 1, record.offset))
    return found


def seen(root, number, isolation):
    """The values that a consumer gets, but for the first."""
    argv = ("read", root / f"many-{number}", "--isolation", isolation, "--format", "json", "--from", "1")
    code, out, err = kafkalog(*argv)
    assert code == 0, err
    found = [json.loads(text) for text in out.splitlines()]
    return [one["value"]["data"].encode() for one in found if one["type"] == "record"]


ONE = ("--producer-id", 4711, "--producer-epoch", 2, "--transaction")


@pytest.mark.parametrize("ending", ["commit", "abort", "open"])
def test_a_transaction_over_several(root, ending):
    """Each partition that something came to has a marker of its own, and the others none, as a coordinator has it."""
    keys = [key for key in KEYS if (murmur2(key) & 0x7FFFFFFF) % COUNT < 2]
    stdin = b"".join(line(key=key.decode(), value=key.decode()) for key in keys)
    code, _, err = kafkalog("append", *paths(root, 0, 1, 2), *NOW, *ONE, ending, stdin=stdin)
    assert code == 0, err
    wanted = [[key for key in keys if (murmur2(key) & 0x7FFFFFFF) % COUNT == number] for number in range(COUNT)]
    for number in range(COUNT):
        end = 1 + len(wanted[number])
        is_marked = ending != "open" and number < 2
        assert markers(root, number) == ([(4711, ending == "commit", end)] if is_marked else [])
        assert seen(root, number, "read_uncommitted") == wanted[number]
        assert seen(root, number, "read_committed") == (wanted[number] if ending == "commit" else [])
        entries = b"".join(path.read_bytes() for path in (root / f"many-{number}").glob("*.txnindex"))
        offsets = [(4711).to_bytes(8, "big"), (1).to_bytes(8, "big"), end.to_bytes(8, "big")]
        assert (b"".join(offsets) in entries) == (ending == "abort" and number < 2)
    assert kafkalog("verify", root, "--level", "deep")[0] == 0


@pytest.mark.parametrize("ending", ["commit", "abort"])
def test_one_that_was_left_open_is_ended_where_it_is(root, ending):
    stdin = b"".join(line(key=key.decode(), value=key.decode()) for key in KEYS)
    assert kafkalog("append", *paths(root, 0, 1, 2), *NOW, *ONE, "open", stdin=stdin)[0] == 0
    assert kafkalog("append", root / "many-1", *NOW, *ONE, "commit")[0] == 0
    before = markers(root, 1)
    assert len(before) == 1
    code, _, err = kafkalog("append", *paths(root, 0, 1, 2), *NOW, *ONE, ending)
    assert code == 0, err
    assert markers(root, 1) == before
    for number in (0, 2):
        assert [is_commit for _, is_commit, _ in markers(root, number)] == [ending == "commit"]
        assert bool(seen(root, number, "read_committed")) == (ending == "commit")
    assert kafkalog("append", *paths(root, 0, 1, 2), *NOW, *ONE, ending, "--quiet")[:2] == (0, "")


@pytest.mark.parametrize("ending", ["commit", "abort"])
def test_none_is_ended_where_there_is_none(root, ending):
    before = tree(root)
    assert kafkalog("append", *paths(root, 0, 1, 2), *NOW, *ONE, ending)[0] == 0
    assert tree(root) == before

"""`kafkalog append` from the command line: what goes in and comes out again, what is refused, what is told."""

import base64
import io
import json
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import commands
from tests.support.commands import tree, writable_copy
from tests.support.naive_reader import read_batches, read_records
from tests.support.product import Environment, run
from tests.support.strategies import contents, headers, timestamps

NOW_MS = 1795228795800
NOW = ("--now", str(NOW_MS), "--single-replica", "--config", f"segment.ms={2**62}")
ANY_TIME = ("--config", f"message.timestamp.after.max.ms={2**63 - 1}")
MARKER = ".kafka_cleanshutdown"


def kafkalog(*argv, **more):
    return commands.kafkalog(*argv, **more)


@pytest.fixture
def root(corpus, tmp_path):
    return writable_copy(corpus / "txn" / "data", tmp_path / "data")


@pytest.fixture
def partition(root):
    return root / "idem-0"


def records(partition, first=0):
    """(offset, timestamp, key, value, headers) from an offset on, by the naive reader."""
    found = []
    for path in sorted(partition.glob("*.log")):
        data = path.read_bytes()
        for batch in read_batches(data):
            assert batch.valid
            found += [tuple(record[:2]) + tuple(record[3:6]) for record in read_records(data, batch)]
    return [record for record in found if record[0] >= first]


def end_of(partition):
    return records(partition)[-1][0] + 1


def json_bytes(data):
    if data is None:
        return None
    try:
        return {"encoding": "utf-8", "data": data.decode()}
    except UnicodeDecodeError:
        return {"encoding": "base64", "data": base64.b64encode(data).decode()}


def json_line(record):
    timestamp, key, value, pairs = record
    line = {
        "type": "record",
        "timestamp_ms": None if timestamp == -1 else timestamp,
        "key": json_bytes(key),
        "value": json_bytes(value),
        "headers": [{"key": json_bytes(name), "value": json_bytes(content)} for name, content in pairs],
    }
    return json.dumps(line).encode() + b"\n"


# -- what goes in comes out

RECORDS = st.lists(st.tuples(timestamps, contents, contents, headers), min_size=1, max_size=12)


@pytest.mark.exhaustive
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@settings(max_examples=12, suppress_health_check=list(HealthCheck), deadline=None)
@given(made=RECORDS, batch_bytes=st.sampled_from([1, 200, 16384]))
def test_any_record_is_there_afterwards(corpus, tmp_path_factory, codec, made, batch_bytes):
    partition = tmp_path_factory.mktemp("one") / "t-0"
    partition.mkdir()
    for suffix in (".log", ".index", ".timeindex"):
        (partition / f"{0:020d}{suffix}").write_bytes(b"")
    stdin = b"".join(map(json_line, made))
    options = ("--codec", codec, "--batch-bytes", batch_bytes, *NOW, *ANY_TIME)
    code, out, err = kafkalog("append", partition, *options, stdin=stdin)
    assert code == 0, err
    assert f"{len(made)} record" in out
    assert records(partition) == [(at, *record) for at, record in enumerate(made)]
    assert kafkalog("verify", partition, "--level", "deep", "--now", 2**62)[0] in (0, 3)  # odd times are told
    shutil.rmtree(partition.parent)


def test_what_dump_log_prints_goes_in_again(root, partition):
    """Markers of transactions do not: they are no data."""
    _, dump, _ = kafkalog("dump-log", "--format", "json", root / "tx-0")
    first = end_of(partition)
    code, _, err = kafkalog("append", partition, *NOW, *ANY_TIME, stdin=dump.encode())
    assert code == 0, err
    wanted = [
        (
            record["timestamp_ms"],
            *(None if record[name] is None else base64_or_text(record[name]) for name in ("key", "value")),
        )
        for record in map(json.loads, dump.splitlines())
        if record["type"] == "record" and record["control"] is None
    ]
    assert len(wanted) > 100
    assert [record[1:4] for record in records(partition, first)] == wanted


def base64_or_text(found):
    return found["data"].encode() if found["encoding"] == "utf-8" else base64.b64decode(found["data"])


def test_lines_and_files(partition, tmp_path):
    first = end_of(partition)
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"a=1\nb=2=3\n")
    two.write_bytes(b"c=")
    argv = ("append", partition, one, "-", two, "--input", "lines", "--key-separator", "=", *NOW)
    assert kafkalog(*argv, stdin=b"x=y\r\n")[0] == 0
    found = [(key, value) for _, _, key, value, _ in records(partition, first)]
    assert found == [(b"a", b"1"), (b"b", b"2=3"), (b"x", b"y"), (b"c", b"")]
    assert {record[1] for record in records(partition, first)} == {NOW_MS}
    assert kafkalog("append", partition, "--input", "lines", *NOW, stdin=b"\n")[0] == 0
    assert records(partition)[-1][2:4] == (None, b"")


def test_plain_strings_and_what_is_left_out(partition):
    first = end_of(partition)
    lines = b'{"value": "\xc3\xa4"}\n\n{"key":"k","headers":[{"key":"h"}],"timestamp_ms":5}\n'
    lines += b'{"schema":"kafkalog.summary/1","type":"summary"}\n'
    assert kafkalog("append", partition, *NOW, stdin=lines)[0] == 0
    assert records(partition, first) == [
        (first, NOW_MS, None, "ä".encode(), ()),
        (first + 1, 5, b"k", None, ((b"h", None),)),
    ]


# -- what is told


def test_a_line_with_its_undo(root, partition):
    before, first = tree(root), end_of(partition)
    code, out, _ = kafkalog("append", partition, "--input", "lines", *NOW, stdin=b"one\ntwo\n")
    assert code == 0
    (line,) = out.splitlines()
    assert f"2 records appended at {first} in 1 batch (81 bytes), offsets 0 to {first + 2}; undo: kafkalog undo" in line
    assert (root / MARKER).exists()
    assert f"idem 0 {first + 2}\n" in (root / "recovery-point-offset-checkpoint").read_text()
    assert kafkalog("verify", root, "--level", "deep")[0] == 0
    code, _, err = kafkalog(*line.rpartition("kafkalog ")[2].split(), *NOW[:2])
    assert code == 0, err
    assert tree(root) == before


def test_objects(partition):
    first = end_of(partition)
    argv = ("append", partition, "--input", "lines", "--codec", "zstd", "--leader-epoch", 9, *NOW, "--format", "json")
    code, out, _ = kafkalog(*argv, "--batch-bytes", 1, stdin=b"one\ntwo\n")
    found, summary = map(json.loads, out.splitlines())
    assert code == 0
    assert (found["first_offset"], found["records"], found["batches"], found["codec"]) == (first, 2, 2, "zstd")
    assert (found["leader_epoch"], found["log_end_offset"], found["segments"]) == (9, first + 2, [])
    assert (summary["records"], summary["batches"], summary["changed"]) == (2, 2, 1)
    assert (partition / "leader-epoch-checkpoint").read_text().endswith(f"9 {first}\n")


def test_an_older_leader_is_refused(partition):
    argv = ("append", partition, "--input", "lines", *NOW, "--leader-epoch")
    assert kafkalog(*argv, 9, stdin=b"a\n")[0] == 0
    before = tree(partition)
    code, _, err = kafkalog(*argv, 8, stdin=b"a\n")
    assert (code, "leader epoch: 8 is that of an older leader: the log has 9" in err) == (1, True), err
    assert tree(partition) == before
    assert kafkalog(*argv, 9, stdin=b"a\n")[0] == 0


def test_a_dry_run_counts_and_changes_nothing(root, partition):
    before = tree(root)
    code, out, _ = kafkalog("append", partition, "--input", "lines", *NOW, "--dry-run", stdin=b"one\ntwo\n")
    assert code == 0
    assert "dry run: 2 records appended at " in out
    assert tree(root) == before
    assert not (partition / ".kafkalog").exists()


def test_nothing_comes(root, partition):
    before = tree(root)
    code, out, _ = kafkalog("append", partition, *NOW)
    assert (code, "nothing to append" in out) == (0, True)
    assert tree(root) == before


def test_what_comes_is_written_while_more_comes(partition):
    """Memory holds a block of it, not all."""

    class Stream(io.BytesIO):
        seen = ()

        def read(self, size=-1):
            logs = partition.glob("*.log")
            Stream.seen += (sum(path.stat().st_size for path in logs),)
            return super().read(size)

    count = 5000
    out, err = io.BytesIO(), io.BytesIO()
    stdin = Stream(b'{"value":"%s"}\n' % (b"x" * 2000) * count)
    environment = Environment(stdout=out, stderr=err, stdin=stdin)
    stdin.read1 = stdin.read
    assert run(["append", str(partition), *NOW], environment) == 0
    grown = [size - Stream.seen[0] for size in Stream.seen]
    assert len(grown) > 8
    assert all(size > (at - 6) << 20 for at, size in enumerate(grown[:-1])), " ".join(str(size >> 10) for size in grown)


# -- producers and transactions


def test_sequences_go_on(partition):
    argv = ("append", partition, "--input", "lines", "--producer-id", 4711, "--producer-epoch", 3, *NOW)
    for _ in range(2):
        assert kafkalog(*argv, stdin=b"a\nb\nc\n")[0] == 0
    data = sorted(partition.glob("*.log"))[-1].read_bytes()
    last = [batch for batch in read_batches(data) if batch.producer_id == 4711]
    assert [(batch.producer_epoch, batch.base_sequence, batch.records_count) for batch in last] == [
        (3, 0, 3),
        (3, 3, 3),
    ]
    code, _, err = kafkalog(*argv[:6], "--producer-epoch", 2, *NOW, stdin=b"a\n")
    assert (code, "producer 4711 has epoch 3, 2 is fenced" in err) == (1, True)


@pytest.mark.parametrize(
    ("epoch", "sequence", "wanted"),
    [(3, 6, None), (3, 5, "goes on with 6, 5 is"), (3, 0, "goes on with 6, 0 is"), (3, 7, "goes on with 6, 7 is"),
     (4, 0, None), (4, 6, "goes on with 0, 6 is"), (2, 6, "2 is fenced")],
)  # fmt: skip
@pytest.mark.parametrize("more", [(), ("--dry-run",)], ids=["", "dry"])
def test_a_sequence_that_a_broker_would_not_take(partition, epoch, sequence, wanted, more):
    argv = ("append", partition, "--input", "lines", "--producer-id", 4711, *NOW)
    assert kafkalog(*argv, "--producer-epoch", 3, "--first-sequence", 4, stdin=b"a\nb\n")[0] == 0  # nobody knew it
    before = tree(partition)
    given = ("--producer-epoch", epoch, "--first-sequence", sequence)
    code, _, err = kafkalog(*argv, *given, *more, stdin=b"a\n")
    assert (code, wanted is None or wanted in err) == (int(wanted is not None), True), err
    assert (tree(partition) == before) == (wanted is not None or more != ())


@pytest.mark.parametrize("ending", ["commit", "abort", "open"])
def test_transactions(root, partition, ending):
    first = end_of(partition)
    argv = ("append", partition, "--input", "lines", "--producer-id", 4711, *NOW, "--transaction", ending)
    assert kafkalog(*argv, stdin=b"a\nb\n")[0] == 0
    assert kafkalog("verify", root, "--level", "deep")[0] == 0
    assert end_of(partition) == first + 2 + (ending != "open")
    indexes = b"".join(path.read_bytes() for path in partition.glob("*.txnindex"))
    aborted = (4711).to_bytes(8, "big") + first.to_bytes(8, "big") + (first + 2).to_bytes(8, "big") in indexes
    assert aborted == (ending == "abort")
    if ending == "open":
        code, _, err = kafkalog(*argv[:-2], stdin=b"c\n")
        assert (code, "Expected transactional write" in err) == (1, True)
        assert kafkalog(*argv[:-1], "commit", stdin=b"")[0] == 0
        assert end_of(partition) == first + 3


# -- partitions from nothing

ID = "kFQ3lUTFSsWWjXbfvbOpDw"


def test_a_partition_is_made(root):
    made = root / "new-3"
    code, out, err = kafkalog("append", made, "--input", "lines", "--topic-id", ID, *NOW, stdin=b"a\nb\n")
    assert (code, "2 records appended at 0 in 1 batch" in out, "was made" in err) == (0, True, True)
    assert [record[0] for record in records(made)] == [0, 1]
    assert (made / "partition.metadata").read_text() == f"version: 0\ntopic_id: {ID}"
    assert (made / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"
    assert "new 3 2\n" in (root / "recovery-point-offset-checkpoint").read_text()
    assert (made.stat().st_mode, (made / f"{0:020d}.log").stat().st_mode & 0o777) == (root.stat().st_mode, 0o644)
    assert (root / MARKER).exists()
    assert kafkalog("verify", root, "--level", "deep")[0] == 0
    assert kafkalog("append", made, "--input", "lines", *NOW, stdin=b"c\n")[0] == 0
    assert end_of(made) == 3
    assert kafkalog("append", made, "--topic-id", ID, *NOW)[0] == 0  # as when it is run again
    assert kafkalog("append", made, "--topic-id", ID[::-1], *NOW)[0] == 2


def test_undo_takes_away_what_was_made(root):
    before, made = tree(root), root / "new-3"
    argv = ("append", made, "--input", "lines", "--topic-id", ID, *NOW)
    _, out, _ = kafkalog(*argv, stdin=b"a\n")
    undo = out.rpartition("kafkalog ")[2].split()
    _, later, _ = kafkalog(*argv, "--now", NOW_MS + 1, stdin=b"b\n")
    assert kafkalog(*undo, *NOW[:2])[0] == 14  # something came since
    assert kafkalog(*later.rpartition("kafkalog ")[2].split(), *NOW[:2])[0] == 0
    assert made.exists()
    code, out, err = kafkalog(*undo, *NOW[:2])
    assert (code, "new-3: removed, it was new" in out) == (0, True), err
    assert tree(root) == before
    assert not list(root.glob("new-*"))
    assert kafkalog(*undo, *NOW[:2])[0] == 10


def test_a_partition_that_was_not_made_to_its_end(root):
    made = root / "new-3"
    made.mkdir()
    (made / "leader-epoch-checkpoint").touch()
    (made / "partition.metadata").write_bytes(b"ver")  # a run writes it whole or not at all
    before = tree(root)
    argv = ("append", made, "--input", "lines", "--topic-id", ID, *NOW)
    assert kafkalog(*argv, stdin=b"a\n")[0] in (2, 14)
    assert tree(root) == before
    (made / "partition.metadata").unlink()
    code, _, err = kafkalog(*argv, stdin=b"a\n")
    assert (code, "was made" in err) == (0, True), err
    assert (made / "partition.metadata").read_text() == f"version: 0\ntopic_id: {ID}"
    assert kafkalog("verify", root, "--level", "deep")[0] == 0


def test_a_partition_is_made_by_the_clock_of_the_machine(root):
    shutil.rmtree(root)
    root.mkdir()
    (root / "meta.properties").touch()
    code, _, err = kafkalog("append", root / "new-3", "--single-replica", "--topic-id", ID, stdin=b'{"value":"a"}\n')
    assert code == 0, err


def test_without_a_topic_id_it_is_told(root):
    _, _, err = kafkalog("append", root / "new-3", "--input", "lines", *NOW, stdin=b"a\n")
    assert "-stray" in err
    assert not (root / "new-3" / "partition.metadata").exists()


def test_without_a_topic_id_it_is_told_before_anything_is_made(root, monkeypatch):
    from kafkalog_cli.change.new_partition import make_alone
    from kafkalog_cli.ops.append import making

    made, err = root / "new-3", io.BytesIO()
    seen = []

    def watched(*argv):
        seen.append(err.getvalue().decode())
        make_alone(*argv)

    monkeypatch.setattr(making, "make_alone", watched)
    argv = ["append", str(made), "--input", "lines", *NOW]
    assert run(argv, Environment(stdout=io.BytesIO(), stderr=err, stdin=io.BytesIO(b"a\n"))) == 0
    (before,) = seen
    assert "-stray" in before
    assert "--topic-id ID" in before
    assert err.getvalue().decode().count("-stray") == 1


def test_a_dry_run_tells_it_and_makes_nothing(root):
    before = tree(root)
    code, _, err = kafkalog("append", root / "new-3", "--input", "lines", *NOW, "--dry-run", stdin=b"a\n")
    assert (code, "-stray" in err, "a dry run makes none" in err) == (1, True, True), err
    assert "-stray" not in kafkalog("append", root / "new-3", *NOW, "--topic-id", ID, "--dry-run")[2]
    assert (tree(root), (root / "new-3").exists()) == (before, False)


@pytest.mark.parametrize(("scale", "unit"), [(1, "seconds"), (10**6, "microseconds"), (10**9, "nanoseconds")])
def test_timestamps_in_another_unit_are_noticed(partition, scale, unit):
    lines = b'{"value":"a","timestamp_ms":%d}\n{"value":"b","timestamp_ms":%d}\n'
    argv = ("append", partition, *NOW)
    for more in (("--dry-run",), ()):
        _, _, err = kafkalog(*argv, *ANY_TIME, *more, stdin=lines % (NOW_MS, 1795228795 * scale))
        assert f"record 2 has the timestamp {1795228795 * scale}" in err
        assert f"seems to be in {unit}" in err
    assert "seems to be" not in kafkalog(*argv, stdin=lines % (NOW_MS, 5))[2]
    if scale > 1:  # too far in the future for a broker
        code, _, err = kafkalog(*argv, stdin=lines % (NOW_MS, 1795228795 * scale))
        assert (code, f"seems to be in {unit}" in err) == (1, True)


@pytest.mark.parametrize(
    ("options", "stdin", "code"),
    [
        ((*NOW,), b"nonsense\n", 1),
        (NOW[:2], b'{"value":null}\n', 14),
        ((*NOW, "--dry-run"), b'{"value":null}\n', 1),
        ((*NOW, "--topic-id", "x"), b'{"value":null}\n', 2),
    ],
)
def test_what_fails_makes_none(root, options, stdin, code):
    before = tree(root)
    assert kafkalog("append", root / "new-3", *options, stdin=stdin)[0] == code
    assert tree(root) == before
    assert not (root / "new-3").exists()


def test_a_path_that_is_no_partitions(root):
    assert kafkalog("append", root / "nothing", *NOW)[0] == 10
    assert kafkalog("append", root / "no" / "new-3", *NOW)[0] == 10


# -- what is refused

BAD = [
    (b"nonsense\n", "(char 0); --input lines reads each line as a value"),
    (b'{"value":"a"}\n[]\n', "no JSON object; --input lines reads each line as a value"),
    (b'{"value":7}\n', "value must be"),
    (b'{"value":{"encoding":"hex","data":"00"}}\n', "encoding of the value"),
    (b'{"value":{"encoding":"base64","data":"="}}\n', "the value is not base64"),
    (b'{"value":"\\ud800"}\n', "surrogate"),
    (b'{"headers":[{"key":null}]}\n', "header key"),
    (b'{"value":"a","timestamp_ms":-2}\n', "timestamp_ms -2"),
    (b'{"value":"a","timestamp_ms":true}\n', "timestamp_ms must be"),
    (b'{"type":"finding"}\n', "type 'finding'"),
    (b'{"type":[]}\n', "type []"),
    (b'{"value":"a","timestamp_ms":%d}\n' % (NOW_MS + 3_600_001), "in the future"),
]


@pytest.mark.parametrize(("line", "reason"), BAD)
def test_bad_input_appends_nothing(root, partition, line, reason):
    """Also where much that is good came before it and is written already."""
    before = tree(root)
    for good in (b"", b'{"value":"%s"}\n' % (b"x" * 3000) * 900):
        code, out, err = kafkalog("append", partition, *NOW, stdin=good + line)
        assert (code, out) == (1 if reason == "in the future" or line.startswith(b"nonsense") else 2, "")
        number = good.count(b"value") + len(line.splitlines())
        assert f"kafkalog: standard input: line {number}: " in err or "in the future" in reason
        assert reason in err
        assert tree(root) == before
        assert not (partition / ".kafkalog").exists()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--config", "cleanup.policy=compact"), "it has no key, and the topic is compacted"),
        (("--config", "max.message.bytes=70"), "over 70 (max.message.bytes"),
        (("--config", "message.timestamp.before.max.ms=5"), None),
    ],
)
def test_what_a_broker_would_not_take(root, partition, options, reason):
    before = tree(root)
    code, _, err = kafkalog("append", partition, "--input", "lines", *NOW, *options, stdin=b"some value\n")
    assert code == (1 if reason else 0)
    assert reason is None or reason in err
    assert (tree(root) == before) == bool(reason)


@pytest.mark.parametrize(
    "argv",
    [
        ("--transaction", "commit"), ("--first-sequence", 3), ("--key-separator", ":"), ("--codec", "snappy", "--compression-level", 3),
        ("--codec", "gzip", "--compression-level", 10), ("--batch-bytes", 0), ("--input", "lines", "--key-separator", ""),
    ],
)  # fmt: skip
def test_options_that_make_no_sense(partition, argv):
    assert kafkalog("append", partition, *NOW, *argv, stdin=b"x\n")[0] == 2


def test_replicas_are_asked_for(partition):
    code, _, err = kafkalog("append", partition, "--now", NOW_MS, stdin=b'{"value":null}\n')
    assert (code, "--single-replica" in err) == (14, True)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('{"value":"a","value":"b"}', "value"),
        ('{"key":{"encoding":"utf-8","data":"x","data":"y"},"value":"b"}', "data"),
        ('{"value":"b","headers":[{"key":"a","key":"b","value":null}]}', "key"),
        ('{"timestamp_ms":1700000000000,"value":"b","timestamp_ms":1}', "timestamp_ms"),
    ],
)
@pytest.mark.parametrize("before", [1, 5000])
def test_a_name_that_is_there_twice_is_refused(root, partition, line, name, before):
    """Of the two values the last would be taken, silently."""
    files = tree(root)
    stdin = b'{"value":"x"}\n' * before + line.encode() + b"\n"
    code, _, err = kafkalog("append", partition, *NOW, stdin=stdin)
    assert code == 2, err
    assert f"standard input: line {before + 1}: an object has the name '{name}' twice" in err
    assert tree(root) == files


def test_damage_is_recovered_first(root, partition):
    log = sorted(partition.glob("*.log"))[-1]
    log.write_bytes(log.read_bytes() + b"\0" * 30)
    before = tree(root)
    code, out, _ = kafkalog("append", partition, *NOW, stdin=b'{"value":null}\n')
    assert (code, f"  next: `kafkalog recover {partition}` repairs it" in out) == (14, True)
    assert tree(root) == before


def test_a_segment_with_only_offsets_below_its_name_is_refused(root, partition):
    """The files of two segments have each other's names. The next segment would get the name of the active one."""
    (root / MARKER).unlink(missing_ok=True)
    older, active = sorted(partition.glob("*.log"))[-2:]
    data = active.read_bytes()
    older.rename(active)
    older.write_bytes(data)
    active.with_suffix(".index").unlink()
    before = tree(root)
    code, out, _ = kafkalog("append", partition, *NOW, "--config", "segment.bytes=300", stdin=b'{"value":"x"}\n')
    assert (code, tree(root) == before) == (14, True), out
    assert "below the segment's base offset" in out


@pytest.mark.parametrize("command", ["append", "roll"])
def test_a_partition_whose_segments_are_lost_is_not_taken_for_a_new_one(root, partition, command):
    """An append overwrote its leader epochs, and the undo removed its topic id. The step that is printed helps."""
    for path in partition.glob("0*"):
        path.unlink()
    assert (partition / "leader-epoch-checkpoint").stat().st_size
    before = tree(root)
    argv = (command, partition, *(NOW if command == "append" else NOW[:2]))
    code, out, _ = kafkalog(*argv, stdin=b'{"value":"x"}\n')
    assert (code, tree(root) == before) == (14, True), out
    step = f"kafkalog recover {partition} --like-broker"
    assert f"  next: `{step}` creates an empty segment" in out
    assert kafkalog(*step.split()[1:], "--now", NOW_MS)[0] == 0
    assert kafkalog(*argv, stdin=b'{"value":"x"}\n')[0] == 0


def test_a_second_name_of_the_log_is_refused(root, partition):
    log = sorted(partition.glob("*.log"))[-1]
    (root.parent / "backup").hardlink_to(log)
    code, _, err = kafkalog("append", partition, *NOW, stdin=b'{"value":null}\n')
    assert (code, "more than one name" in err or "link" in err) == (14, True)


# -- the marker of a clean shutdown


@pytest.mark.parametrize("name", ["idem-0", "tx-0"])
def test_only_what_was_touched_is_looked_at_again(root, name):
    """What is latent in an older segment was there before; a broker that finds the marker does not look at it either."""
    partition, lines = root / name, b"".join(b"%d\n" % at for at in range(90))
    few = ("--batch-bytes", 200, "--config", "internal.segment.bytes=1000", "--input", "lines", *NOW)
    assert kafkalog("append", partition, *few, stdin=lines)[0] == 0
    logs = sorted(partition.glob("*.log"))
    assert len(logs) > 4
    assert (root / MARKER).exists()
    data = bytearray(logs[1].read_bytes())
    data[100] ^= 1
    logs[1].write_bytes(data)
    for _ in range(2):
        code, _, err = kafkalog("append", partition, *few, stdin=lines)
        assert (code, "stays away" in err) == (0, False), err
        assert (root / MARKER).exists()
    assert kafkalog("verify", partition)[0] == 4


def test_the_marker_stays_away_where_the_segment_that_grew_is_damaged(root, partition):
    log = sorted(partition.glob("*.log"))[-1]
    data = bytearray(log.read_bytes())
    assert len(list(read_batches(bytes(data)))) > 1
    data[99] ^= 1  # in its first batch: the last one, behind which records go, is sound
    log.write_bytes(data)
    (root / MARKER).write_bytes(b'{"version":0,"brokerEpoch":1}')
    code, _, err = kafkalog("append", partition, "--input", "lines", *NOW, stdin=b"v\n")
    assert (code, "leaves every in-sync replica set" in err) == (0, True)
    assert not (root / MARKER).exists()


@pytest.mark.parametrize("text", [b"", b"\n\n"])
@pytest.mark.parametrize("made", [(), ("--format", "json")])
def test_nothing_makes_no_partition(root, text, made):
    before = tree(root)
    code, out, err = kafkalog("append", root / "new-0", *NOW, *made, stdin=text)
    assert (code, not (root / "new-0").exists(), tree(root) == before) == (0, True, True)
    assert "this partition was not made: nothing was appended" in err
    assert ("nothing to append" in out) != bool(made)


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"summary","records":3}',
        b'{"type":"progress","percent":50}',
        b'{"type":"batch"}',
        b'{"type":"click","user":5}',
        b'{"type":"summary","value":"a"}',
        b'{"schema":"shop/1","type":"summary"}',
        b'{"control":"on","device":5}',
        b'{"control":7,"value":"a","speed":5}',
    ],
)
def test_data_with_the_words_of_our_own_lines_is_not_left_out(partition, line):
    """A record that is neither appended nor refused is lost without a word."""
    before = tree(partition)
    code, out, err = kafkalog("append", partition, *NOW, stdin=line + b"\n")
    assert (code, out, tree(partition) == before) == (2, "", True)
    assert "line 1: " in err
    assert "--input lines" in err

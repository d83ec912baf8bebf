"""dump-index on every directory of real brokers: what is sound is right in its style, what a start leaves wrong is named.

The recorded output of the real kafka-dump-log tells which entries there are, and which of them point past a batch.
"""

import json
import re
import tarfile
from collections import Counter

import pytest

from tests.support.commands import kafkalog

HEALTHY = [
    *(f"v2-{name}" for name in ("none", "gzip", "snappy", "lz4", "zstd", "large", "logappend", "mixed")),
    *(f"client-{name}" for name in ("librdkafka", "kafka-python", "aiokafka", "kafkajs")),
    *(f"compact-{name}" for name in ("old", "plain", "plain2", "ret0", "tx", "edge", "producers")),
    *("txn", "v0", "v1", "upgraded", "retention", "internal", "remote", "crash-asis", "clean-asis"),
]
BY_KAFKA_2_8 = ("v0", "v1", "upgraded", "compact-old")

CORRUPT, WARN, FINE = 4, 3, 0


def dump_index(*argv):
    return kafkalog("dump-index", *argv)


def states(case):
    return [path for path in sorted(case.iterdir()) if path.is_dir() and not path.name.startswith("expected")]


def files_of(text):
    """The lines of each file, by its path."""
    found, path = {}, None
    for line in text.splitlines():
        if line.startswith("  "):
            found[path].append(line.strip())
        else:
            path = line.split(": ")[0]
            found.setdefault(path, []).append(line)
    return found


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", HEALTHY)
def test_everything_that_a_healthy_broker_left_is_right(corpus, name):
    for state in states(corpus / name):
        code, out, err = dump_index(state)
        assert (code, err) == (FINE, ""), (state, out)
        sidecars = {
            str(path) for path in state.rglob("*") if path.is_file() and path.suffix not in (".log", ".deleted")
        }
        assert sidecars <= set(files_of(out))
        for wrong in ("stale", "out of order", "beyond the end", "unverified", "warning:", "error:"):
            assert wrong not in out


def test_dump_index_recognises_the_index_styles_of_both_brokers(corpus):
    styles = {}
    for case in sorted(corpus.iterdir()):
        if case.name in HEALTHY:
            old = case.name in BY_KAFKA_2_8
            _, out, _ = dump_index("--format", "json", *states(case))
            for line in map(json.loads, out.splitlines()):
                if line["type"] == "index-file" and line["kind"] == ".index" and line["entries"]:
                    styles.setdefault(old, Counter())[tuple(line["styles"])] += 1
    call, batch, anything = ("append-call",), ("append-call", "per-batch"), ("first-offset", "append-call", "per-batch")
    assert set(styles[True]) == {call, batch}
    assert styles[True][call] >= 3  # uncompressed message sets: an entry for each append call
    assert set(styles[False]) == {batch, anything}


def recorded(case):
    """(file, stdout, stderr) of the real tool's dumps of indexes that it read to the end."""
    with tarfile.open(case / "expected" / "outputs.tar.gz") as tar:
        outputs = {m.name.removeprefix("./"): tar.extractfile(m).read().decode() for m in tar if m.isfile()}
    for line in (case / "expected" / "COMMANDS.tsv").read_text().splitlines():
        name, code, command = [*line.split("\t"), "", ""][:3]
        if name.endswith((".index.default.out", ".timeindex.default.out")) and code == "0":
            file = case / re.search(r"--files (\S+)", command)[1]
            if file.exists():
                yield file, outputs[name], outputs.get(name + ".err", "")


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", HEALTHY)
def test_entries_and_mismatches_are_those_of_the_real_tool(corpus, name):
    seen = 0
    for file, out, err in recorded(corpus / name):
        _, ours, _ = dump_index("--format", "json", file)
        entries = [line for line in map(json.loads, ours.splitlines()) if line["type"].endswith("index-entry")]
        fields = ("offset", "position") if file.suffix == ".index" else ("timestamp_ms", "offset")
        expected = [
            tuple(map(int, re.findall(r"-?\d+", line))) for line in out.splitlines() if line.startswith(("off", "tim"))
        ]
        zero_tail = len(expected) == 1 and not entries  # the real tool shows one entry of an index never written
        if not zero_tail:
            assert [tuple(entry[field] for field in fields) for entry in entries] == expected
        if file.suffix == ".index":
            # "Index offset: 26, log offset: 12": the batch at the entry's position ends before the entry's offset.
            mismatches = {int(offset) for offset in re.findall(r"Index offset: (\d+), log offset", err)}
            calls = {entry["offset"] for entry in entries if entry["styles"] == ["append-call"]}
            assert calls == mismatches
        seen += 1
    assert seen or name in ("remote", "internal", "crash-asis", "clean-asis")


# A broker does not start with the one, and keeps the magic of the other.
WRONG_AFTER_A_START = {"crash-flip-offset", "crash-flip-magic"}


def test_dump_index_finds_nothing_wrong_in_indexes_that_a_broker_recovered(corpus):
    cases = sorted(case for case in corpus.glob("crash-*") if case.name not in WRONG_AFTER_A_START)
    assert len(cases) > 20
    for case in cases:
        code, out, _ = dump_index(case / "after")
        assert code == FINE, (case.name, out)


@pytest.mark.parametrize(
    ("case", "file", "words"),
    [
        # A broker that was stopped cleanly keeps all this, or makes it so (spec of its start).
        ("clean-garbage-index", ".index", "beyond the end"),
        ("clean-plausible-index", ".index", "stale, no batch starts there"),
        ("clean-del-timeindex", ".timeindex", "no entry for the largest timestamp"),
        ("clean-swap", "00000000000000000000.index", "KAFKA-10207"),
        ("clean-torn", "leader-epoch-checkpoint", "has leader epoch 0"),
        ("clean-torn", ".log", "a broker uses 99 as the end of the log, although batches continue to offset 125"),
        ("clean-zero-index", "00000000000000000000.index", "KAFKA-10207"),
        ("clean-bad-index-size", "00000000000000000000.index", "not a multiple of 8"),
    ],
)
def test_dump_index_reports_index_damage_that_a_clean_start_leaves(corpus, case, file, words):
    code, out, _ = dump_index(corpus / case / "after")
    assert code in (WARN, CORRUPT)
    assert any(words in line for path, lines in files_of(out).items() if path.endswith(file) for line in lines), out


@pytest.mark.parametrize("state", ["before", "after"])
def test_a_broker_killed_while_it_wrote_leaves_zero_tails_and_nothing_wrong(corpus, tmp_path, state):
    with tarfile.open(corpus / "killed" / f"{state}.tar.gz") as tar:
        tar.extractall(tmp_path, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    code, out, _ = dump_index(tmp_path / state)
    assert code == FINE, out
    assert ("zero tail of 104" in out) is (state == "before")

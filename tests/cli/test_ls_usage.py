"""`ls --topics`, `--sort`, `--freeable`: sums against `du`, what is freeable against what retain and compact free."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.commands import everything, kafkalog
from tests.support.metadata_logs import log_dir_of_topics

EXAMPLE = Path(__file__).parents[2] / "docs" / "example"
LATER = ("--now", "2040-01-01T00:00:00Z")
OLD = ("--config", "cleanup.policy=delete", "--config", "retention.ms=600000")
COMPACTED = ("--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=0")
HOLDER = (
    "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); sys.stdin.read()"
)
BLOCK_BYTES = 4096


def objects(*argv):
    """(exit code, the objects by type, stderr)."""
    code, out, err = kafkalog("ls", *argv, "--format", "json")
    found = {}
    for line in out.splitlines():
        found.setdefault(json.loads(line)["type"], []).append(json.loads(line))
    return code, found, err


def du(directories, *, below=False, apparent=False):
    """The bytes of the files in directories, as du counts them; `below`: of those in their directories too."""
    paths = [p for d in directories for p in (d.rglob("*") if below else d.iterdir()) if p.is_file()]
    if not paths:
        return 0
    options = ["--apparent-size"] if apparent else []
    text = subprocess.run(
        ["du", "-c", "-l", "-L", "-B1", *options, "--files0-from=-"],
        input="\0".join(map(str, paths)), capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return int(text.splitlines()[-1].split()[0])


def partitions_in(root):
    return sorted(p for p in root.iterdir() if p.is_dir() and any(p.iterdir()))


@pytest.fixture
def log_dir(tmp_path):
    """The example, with a preallocated index and a sparse log."""
    root = shutil.copytree(EXAMPLE, tmp_path / "logs")
    os.truncate(root / "mixed-0" / f"{0:020d}.index", 10 << 20)
    (root / "levels-0" / f"{500:020d}.log").touch()
    os.truncate(root / "levels-0" / f"{500:020d}.log", 3 << 20)
    return root


def test_sums_are_those_of_du(corpus, tmp_path, log_dir):
    roots = [shutil.copytree(corpus / case / "before", tmp_path / case) for case in ("retention", "compact-tx")]
    _, found, _ = objects(*roots, log_dir, "--topics")
    seen = 0
    for each in found["topic"]:
        own = [p for d in each["log_dirs"] for p in partitions_in(Path(d["path"])) if p.name.startswith(each["topic"])]
        own = [p for p in own if p.name.removeprefix(each["topic"])[1:].isdecimal()]
        assert len(own) == each["partitions"]
        assert (each["bytes"]["total"], each["allocated_bytes"]) == (du(own, apparent=True), du(own)), each["topic"]
        seen += 1
    assert seen > 8
    for each in found["logdir"]:
        own = partitions_in(Path(each["path"]))
        assert (each["bytes"]["total"], each["allocated_bytes"]) == (du(own, apparent=True), du(own))
    assert {Path(each["path"]) for each in found["logdir"]} == {*roots, log_dir}
    everything = [p for root in (*roots, log_dir) for p in partitions_in(root)]
    assert found["summary"][0]["allocated_bytes"] == du(everything)
    assert found["summary"][0]["bytes"] == du(everything, apparent=True)


def test_sparse_files_take_less_than_their_size(log_dir):
    _, found, _ = objects(log_dir, "--sort", "size")
    mixed = next(each for each in found["partition"] if each["path"].endswith("mixed-0"))
    assert mixed["bytes"]["index"] == 10 << 20
    assert mixed["allocated_bytes"] < 1 << 20
    _, out, _ = kafkalog("ls", log_dir, "--sort", "size")
    assert "3 partitions, 4 segments: 13 MiB, " in out.splitlines()[-1]


@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("name", ["levels-0", "mixed-0", "mixed-1"]),
        ("size", ["mixed-0", "levels-0", "mixed-1"]),
        ("segments", ["levels-0", "mixed-0", "mixed-1"]),
    ],
)
def test_ls_sorts_the_largest_partitions_first(log_dir, key, names):
    _, out, _ = kafkalog("ls", log_dir, "--sort", key)
    assert [line.split()[0] for line in out.splitlines()[1:4]] == names
    _, found, _ = objects(log_dir, "--sort", key)
    assert [Path(each["path"]).name for each in found["partition"]] == names


def test_sorted_by_what_is_on_the_disk_and_by_what_is_freeable(log_dir):
    (log_dir / "mixed-1" / f"{900:020d}.log").write_bytes(b"x" * 100_000)
    _, found, _ = objects(log_dir, "--topics", "--sort", "allocated")
    assert [each["topic"] for each in found["topic"]] == ["mixed", "levels"]
    _, found, _ = objects(log_dir, "--sort", "freeable", "--freeable", *OLD, *LATER)
    sizes = [each["freeable"]["bytes"] or 0 for each in found["partition"]]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1]


def test_ls_counts_the_bytes_that_runs_keep_for_undo(tmp_path):
    root = shutil.copytree(EXAMPLE, tmp_path / "logs")
    assert kafkalog("retain", root, "--topic", "mixed", *OLD, *LATER, "--keep")[0] == 0
    _, found, _ = objects(root, "--topics")
    for each in found["topic"]:
        own = [p for p in partitions_in(root) if p.name.startswith(each["topic"])]
        assert each["allocated_bytes"] + each["run_allocated_bytes"] == du(own, below=True)
        assert each["bytes"]["total"] + each["run_bytes"] == du(own, below=True, apparent=True)
    assert [each["run_bytes"] > 0 for each in found["topic"]] == [False, True]


def test_ls_reports_a_damaged_producer_snapshot_in_each_view_and_format(corpus, tmp_path):
    root = shutil.copytree(corpus / "txn/data", tmp_path / "logs")
    newest = max((root / "tx-0").glob("*.snapshot"))
    newest.chmod(0o644)
    newest.write_bytes(b"x")
    for view in ((), ("--topics",), ("--sort", "size")):
        for form in ((), ("--format", "json")):
            code, _, err = kafkalog("ls", root, *view, *form)
            assert (code, newest.name in err) == (3, True), (view, form)


# -- freeable


def test_retain_frees_the_bytes_that_ls_calls_freeable(corpus, tmp_path):
    """Segment files; where all segments go, an empty one is made, whose files take a block each."""
    told = Counter()
    for topic in ("ret-time", "ret-size", "ret-records"):
        root = shutil.copytree(corpus / "retention" / "before", tmp_path / topic)
        own = [p for p in partitions_in(root) if p.name.startswith(f"{topic}-")]
        options = (root, "--topic", topic, *OLD, "--config", "retention.bytes=2000", *LATER)
        _, found, _ = objects(*options, "--freeable")
        free = sum(each["freeable"]["retention_bytes"] + each["freeable"]["due_bytes"] for each in found["partition"])
        before = du(own)
        assert kafkalog("retain", *options, "--delay", "0s")[0] == 0
        assert 0 <= free - (before - du(own)) <= 4 * BLOCK_BYTES * len(own), topic
        told[topic] = free
    assert min(told.values()) > 0


def test_only_what_is_past_its_limit_is_freeable(corpus, tmp_path):
    root = shutil.copytree(corpus / "retention" / "before", tmp_path / "data")
    own = root / "ret-size-0"
    logs = sorted(own.glob("*.log"))
    limit = sum(p.stat().st_size for p in logs[1:])
    options = (own, "--config", "cleanup.policy=delete", "--config", f"retention.bytes={limit}", *LATER)
    _, found, _ = objects(*options, "--freeable")
    freed = found["partition"][0]["freeable"]["bytes"]
    expected = sum(p.stat().st_blocks * 512 for p in own.glob(f"{logs[0].stem}.*") if p.suffix != ".checkpoint")
    assert freed == expected > 0


@pytest.mark.parametrize("case", ["compact-plain", "compact-tx", "compact-producers"])
def test_compact_frees_the_bytes_that_ls_calls_freeable(corpus, tmp_path, case):
    root = shutil.copytree(corpus / case / "before", tmp_path / "data")
    seen = 0
    for own in partitions_in(root):
        if own.name.startswith("__"):
            continue
        options = (own, *COMPACTED, *LATER)
        _, found, _ = objects(*options, "--freeable")
        free = found["partition"][0]["freeable"]
        before = du([own])
        assert kafkalog("compact", *options, "--delay", "0s")[0] == 0
        assert (free["unknown_because"], free["retention_bytes"]) == ([], 0)
        assert free["compaction_bytes"] + free["due_bytes"] == max(before - du([own]), 0), own.name
        seen += free["compaction_bytes"] > 0
    assert seen


def test_bytes_freeable_by_retention_and_by_compaction_count_once(corpus, tmp_path):
    root = shutil.copytree(corpus / "compact-plain" / "before", tmp_path / "data")
    both = ("--config", "cleanup.policy=compact,delete", "--config", "min.cleanable.dirty.ratio=0")
    seen = 0
    for own in partitions_in(root):
        if own.name.startswith("__"):
            continue
        _, never, _ = objects(own, *COMPACTED, *LATER, "--freeable")
        _, kept, _ = objects(own, *both, "--config", "retention.ms=-1", *LATER, "--freeable")
        _, gone, _ = objects(own, *both, "--config", "retention.ms=1", *LATER, "--freeable")
        never, kept, gone = (each["partition"][0]["freeable"] for each in (never, kept, gone))
        assert kept["compaction_bytes"] == never["compaction_bytes"]
        assert (gone["compaction_bytes"], gone["unknown_because"]) == (0, [])
        before = du([own])
        assert gone["bytes"] <= before
        assert kafkalog("retain", own, *both, "--config", "retention.ms=1", *LATER, "--delay", "0s")[0] == 0
        assert 0 <= gone["bytes"] - (before - du([own])) <= 4 * BLOCK_BYTES
        seen += never["compaction_bytes"] > 0
    assert seen


def test_a_second_name_of_a_file_frees_nothing(tmp_path):
    root = shutil.copytree(EXAMPLE, tmp_path / "logs")
    _, found, _ = objects(root / "mixed-0", "--freeable", *OLD, *LATER)
    log = root / "mixed-0" / f"{0:020d}.log"
    os.link(log, tmp_path / "backup")
    _, linked, _ = objects(root / "mixed-0", "--freeable", *OLD, *LATER)
    before, after = (each["partition"][0]["freeable"]["bytes"] for each in (found, linked))
    assert before - after == log.stat().st_blocks * 512


TOPICS = {"compacted": {"cleanup.policy": "compact"}, "timed": {"retention.ms": "3600000"},
          "full": {"cleanup.policy": "delete", "retention.ms": "3600000", "retention.bytes": "-1"}, "plain": {}}  # fmt: skip


@pytest.fixture
def data(tmp_path):
    """A log directory with a metadata log beside the partitions, and the broker's server.properties."""
    return log_dir_of_topics(tmp_path, TOPICS)


def test_ls_calls_unknown_the_partitions_that_retain_refuses(data):
    for options in ((), ("--broker-config", data.parent / "server.properties")):
        code, found, _ = objects(data, "--freeable", *LATER, *options)
        assert code == kafkalog("ls", data)[0], "what is not known is no failure"
        _, _, err = kafkalog("retain", data, "--dry-run", *LATER, *options, "--format", "json")
        refused = {Path(each["path"]).name: each["details"]["reason"] for each in map(json.loads, err.splitlines())
                   if "exit_code" in each}  # fmt: skip
        unknown = {
            Path(each["path"]).name: [why.removeprefix("retention: ") for why in each["freeable"]["unknown_because"]
                                      if why.startswith("retention: ")]
            for each in found["partition"]
            if each["freeable"]["retention_bytes"] is None and each["topic"] != "__cluster_metadata"
        }  # fmt: skip
        assert unknown == {name: [reason] for name, reason in refused.items()}
        assert ("plain-0" in unknown) is not options
        assert bool(unknown) is not bool(options)


def test_a_row_says_unknown_and_a_line_says_why(data):
    _, out, _ = kafkalog("ls", data, "--freeable", "--topics", *LATER)
    rows = {line.split()[0]: line for line in out.splitlines() if line}
    assert "unknown [" in rows["plain"]
    assert "unknown" not in rows["full"]
    reasons = [line for line in out.splitlines() if line.startswith("[")]
    assert any("--broker-config FILE" in line for line in reasons)
    _, found, _ = objects(data, "--freeable", *LATER)
    unknown = [each for each in found["partition"] if each["freeable"]["unknown_because"]]
    assert out.splitlines()[-1].endswith(f"freeable bytes unknown for {len(unknown)} partitions")
    assert 1 < len(unknown) < len(found["partition"])


def test_nothing_is_changed_and_no_lock_is_taken(data):
    (data / ".lock").touch()
    broker = ("--broker-config", data.parent / "server.properties")
    before = everything(data)
    _, alone, _ = objects(data, "--freeable", *LATER, *broker)
    command = [sys.executable, "-c", HOLDER, str(data / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        code, beside, err = objects(data, "--freeable", *LATER, *broker)
        holder.stdin.close()
    assert code == kafkalog("ls", data)[0]
    assert [json.loads(line)["path"] for line in err.splitlines() if '"locked"' in line] == [str(data)]
    assert [each["freeable"] for each in beside["partition"]] == [each["freeable"] for each in alone["partition"]]
    assert everything(data) == before


def test_ls_calls_a_damaged_log_unknown_and_counts_the_others(corpus, tmp_path):
    root = shutil.copytree(corpus / "compact-plain" / "before", tmp_path / "data")
    own = next(p for p in partitions_in(root) if not p.name.startswith("__") and len([*p.glob("*.log")]) > 1)
    first = min(own.glob("*.log"))
    content = bytearray(first.read_bytes())
    content[70] ^= 1
    first.write_bytes(content)
    _, found, _ = objects(own, "--freeable", *COMPACTED, *LATER)
    free = found["partition"][0]["freeable"]
    assert free["compaction_bytes"] is None
    assert free["unknown_partitions"] == 1
    assert str(first) in free["unknown_because"][0]


# -- several directories, bad input


def test_a_topic_in_several_log_directories_is_listed_once_with_each_directory(tmp_path):
    one, two = (tmp_path / name for name in ("one", "two"))
    shutil.copytree(EXAMPLE, one)
    two.mkdir()
    shutil.move(one / "mixed-1", two)
    shutil.copy(one / "meta.properties", two)
    _, found, _ = objects(one, two, one / "mixed-0", two, "--topics")
    mixed = next(each for each in found["topic"] if each["topic"] == "mixed")
    assert (mixed["partitions"], [d["path"] for d in mixed["log_dirs"]]) == (2, [str(one), str(two)])
    assert mixed["allocated_bytes"] == du([one / "mixed-0", two / "mixed-1"])
    assert [(each["path"], each["partitions"]) for each in found["logdir"]] == [(str(one), 2), (str(two), 1)]
    _, out, _ = kafkalog("ls", one, two, "--sort", "name")
    assert [line.split()[0] for line in out.splitlines()[1:4]] == [
        str(one / "levels-0"), str(one / "mixed-0"), str(two / "mixed-1"),
    ]  # fmt: skip
    assert "2 topics, 3 partitions, 3 segments: " in out.splitlines()[-1]


def test_freeable_bytes_are_unknown_without_a_metadata_log(tmp_path):
    code, found, _ = objects(EXAMPLE, "--freeable", "--metadata", tmp_path / "no")
    assert (code, {each["freeable"]["unknown_partitions"] for each in found["partition"]}) == (0, {1})


def test_names_reach_no_terminal_raw(tmp_path):
    root = shutil.copytree(EXAMPLE, tmp_path / "logs")
    shutil.move(root / "levels-0", root / "le\x1b[31mvels-0")
    _, out, err = kafkalog("ls", root, "--topics", "--freeable", *LATER)
    assert "\x1b" not in out + err


def test_configured_values_do_not_stop_other_listings(data, monkeypatch, tmp_path):
    """A configured --metadata or --sort is no question; typed, it needs --freeable, or excludes --segments."""
    plain = kafkalog("ls", data)
    monkeypatch.setenv("KAFKALOG_METADATA", str(data))
    monkeypatch.setenv("KAFKALOG_BROKER_CONFIG", f"{tmp_path}/server.properties")
    assert kafkalog("ls", data) == plain
    assert kafkalog("ls", data, "--metadata", data)[::2] == (2, "kafkalog: --metadata needs --freeable\n")
    segments = kafkalog("ls", data, "--segments")
    monkeypatch.setenv("KAFKALOG_SORT", "size")
    assert kafkalog("ls", data, "--segments") == segments
    assert kafkalog("ls", data, "--segments", "--sort", "size")[0] == 2


def test_ls_counts_no_freeable_bytes_of_the_metadata_log(data):
    _, found, _ = objects(data, "--freeable", *LATER)
    (metadata,) = (each for each in found["partition"] if each["topic"] == "__cluster_metadata")
    assert metadata["freeable"]["retention_bytes"] == metadata["freeable"]["compaction_bytes"] == 0
    assert metadata["freeable"]["unknown_because"] == []

"""`kafkalog compact` from the command line: what it says, changes and refuses."""

import json
import re
import shutil
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from kafkalog_cli.output.progress import sized
from tests.support.commands import kafkalog, tree

NOW = ("--now", "1795230000000")
MARKER = ".kafka_cleanshutdown"
CHECKPOINT = "cleaner-offset-checkpoint"
COMPACT = ("--config", "cleanup.policy=compact", "--config", "segment.bytes=5000")
SCHEMA = Path(__file__).parents[2] / "docs" / "schemas" / "kafkalog.compaction-1.json"


def objects(*argv):
    """(exit code, what is told of partitions, the summary); every object is as its schema says."""
    code, out, _ = kafkalog(*argv, "--format", "json")
    *found, summary = map(json.loads, out.splitlines())
    schema = json.loads(SCHEMA.read_text())
    for each in found:
        Draft202012Validator(schema).validate(each)
        assert each.keys() <= schema["properties"].keys()
    return code, found, summary


@pytest.fixture
def root(corpus, tmp_path):
    shutil.copytree(corpus / "compact-tx" / "before", tmp_path / "data")
    return tmp_path / "data"


def line_of(root, partition):
    topic, _, number = partition.rpartition("-")
    lines = (root / CHECKPOINT).read_text().splitlines()
    return next((line.split()[2] for line in lines if line.split()[:2] == [topic, number]), None)


def test_a_line_a_partition_and_undo_takes_it_back(root):
    before = tree(root)
    code, out, err = kafkalog("compact", root / "cmp-tx-0", *COMPACT, *NOW)
    assert (code, err) == (0, "")
    (line,) = out.splitlines()
    words = "cleaned up to 180, 5 segments into 3, 21 of 180 records kept, 1.5 KiB of 9.6 KiB, offsets 0 to 230; undo"
    assert line.startswith(f"{root}/cmp-tx-0: {words} for 60 s, and until a broker starts: kafkalog undo ")
    assert line_of(root, "cmp-tx-0") == "180"
    assert tree(root)[MARKER] == before[MARKER]
    assert kafkalog(*line.rpartition("kafkalog ")[2].split(), *NOW)[0] == 0
    assert tree(root) == before


def test_the_second_run_changes_nothing(root):
    assert kafkalog("compact", root, *COMPACT, *NOW)[0] == 0
    before = tree(root)
    code, out, _ = kafkalog("compact", root, *COMPACT, *NOW)
    assert code == 0
    *lines, closing = out.splitlines()
    assert ["nothing to do, all records are clean or in the active segment" in line for line in lines] == [True] * 3
    assert " partitions: 0 changed, " in closing
    assert tree(root) == before
    assert kafkalog("compact", root, *COMPACT, *NOW, "--quiet")[:2] == (0, "")
    assert kafkalog("verify", root, "--level", "deep", *NOW)[0] == 0


def test_files_go_when_their_delay_is_over(root):
    assert kafkalog("compact", root / "cmp-tx-0", *COMPACT, *NOW)[0] == 0
    assert list((root / "cmp-tx-0").glob("*.deleted"))
    code, out, _ = kafkalog("compact", root / "cmp-tx-0", *COMPACT, "--now", "1795230061000")
    assert code == 0
    assert "old files unlinked" in out
    assert not list((root / "cmp-tx-0").glob("*.deleted"))


def test_without_a_delay_they_go_at_once(root):
    code, out, _ = kafkalog("compact", root / "cmp-tx-0", *COMPACT, *NOW, "--delay", "0s")
    assert code == 0
    assert out.strip().endswith("; cannot be undone")
    assert not list((root / "cmp-tx-0").glob("*.deleted"))


def test_a_dry_run_tells_and_changes_nothing(root):
    before = tree(root)
    code, out, _ = kafkalog("compact", root / "cmp-tx-0", *COMPACT, *NOW, "--dry-run", "--estimate", "--verbose")
    assert code == 0
    first, *more = out.splitlines()
    words = "5 segments cleaned into 3"
    assert first.startswith(f"{root}/cmp-tx-0: dry run: {words}, ")
    assert "records removed, offsets 0 to" in first
    dirt = "dirty ratio 1.000 (0 bytes clean, 9.6 KiB dirty)"
    assert f"  cleanable up to offset 180 (the active segment), {dirt}" in more
    assert "  would set the line in cleaner-offset-checkpoint to 180" in more
    code, (found,), summary = objects("compact", root / "cmp-tx-0", *COMPACT, *NOW, "--dry-run", "--estimate")
    assert (code, summary["exit_code"], summary["cleaned"]) == (0, 0, 0)
    assert (found["choice"], found["dirty_bytes"], found["clean_bytes"], found["run"]) == ("dirty", 9857, 0, None)
    assert found["estimate"]["records"] == 180
    assert 0 < found["estimate"]["gone"] <= 159
    assert tree(root) == before
    assert kafkalog("compact", root, *COMPACT, "--estimate")[0] == 2


def test_what_was_done_for_programs(root):
    code, found, summary = objects("compact", root, *COMPACT, *NOW)
    assert code == 0
    assert {each["topic"]: each["up_to"] for each in found} == {
        "cmp-opentx": "last-stable-offset",
        "cmp-tx": "active-segment",
        "cmp0-tx": "active-segment",
    }
    outcome = next(each["outcome"] for each in found if each["topic"] == "cmp-tx")
    assert (outcome["end_offset"], outcome["records_read"], outcome["records_kept"]) == (180, 180, 21)
    assert [len(each["sources"]) for each in outcome["segments"]] == [2, 2, 1]
    assert (summary["cleaned"], summary["changed"]) == (3, 3)
    assert summary["records_gone"] == sum(
        each["outcome"]["records_read"] - each["outcome"]["records_kept"] for each in found
    )


def test_the_ratio_decides_and_force_does_it_anyway(corpus, tmp_path):
    shutil.copytree(corpus / "compact-tx" / "before2", tmp_path / "data")
    partition = tmp_path / "data" / "cmp-tx-0"
    before = tree(tmp_path)
    ratio = ("--config", "min.cleanable.dirty.ratio=0.9")
    code, out, _ = kafkalog("compact", partition, *COMPACT, *NOW, *ratio)
    assert code == 0
    assert "nothing to do, dirty ratio 0." in out
    assert ", not above 0.9" in out
    assert tree(tmp_path) == before
    code, (found,), _ = objects("compact", partition, *COMPACT, *NOW, *ratio, "--force")
    assert (code, found["choice"]) == (0, "forced")
    # Again, where nothing is dirty: the cleaned part is cleaned once more.
    code, (found,), _ = objects("compact", partition, *COMPACT, *NOW, *ratio, "--force")
    assert (code, found["choice"], found["dirty_bytes"]) == (0, "forced", 0)
    assert found["outcome"]["records_kept"] == found["outcome"]["records_read"]
    assert kafkalog("verify", partition, "--level", "deep", *NOW)[0] == 0


def test_the_dirtiest_comes_first(corpus, tmp_path):
    """As a broker's cleaner picks them."""
    root = tmp_path / "data"
    shutil.copytree(corpus / "compact-tx" / "before2", root)
    found = objects("compact", root, *COMPACT, *NOW, "--dry-run")[1]
    ratios = [each["dirty_ratio"] for each in found]
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[0] > ratios[-1]
    assert [each["topic"] for each in found] != sorted(each["topic"] for each in found)


def test_nothing_is_cleaned_on_a_default(root):
    before = tree(root)
    code, _, err = kafkalog("compact", root / "cmp-tx-0", *NOW)
    assert code == 14
    assert "skipped: no source says which cleanup.policy this topic has. Give the cluster's metadata log" in err
    code, out, _ = kafkalog("compact", root / "cmp-tx-0", "--config", "cleanup.policy=delete", *NOW)
    assert (code, "cleanup.policy has no compact" in out) == (0, True)
    assert tree(root) == before


def test_a_damaged_log_stays_and_the_others_go_on(root):
    path = root / "cmp-tx-0" / f"{12:020d}.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    before = tree(root / "cmp-tx-0")
    code, found, _ = objects("compact", root, *COMPACT, *NOW)
    assert code == 4
    damaged = next(each for each in found if each["topic"] == "cmp-tx")
    assert (damaged["choice"], damaged["remarks"][0]["severity"]) == ("damaged", "corruption")
    assert "CRC" in damaged["remarks"][0]["message"]
    assert tree(root / "cmp-tx-0") == before
    assert [each["outcome"] is None for each in found].count(False) == 2
    assert line_of(root, "cmp-tx-0") is None
    assert not list((root / "cmp-tx-0" / ".kafkalog").glob("*/*"))


def test_little_memory_gives_the_same(root, tmp_path):
    one_by_one = ("--jobs", "1")  # side by side, whichever is done first has the first line in the checkpoint
    shutil.copytree(root, tmp_path / "other")
    assert kafkalog("compact", root, *COMPACT, *NOW, *one_by_one)[0] == 0
    assert kafkalog("compact", tmp_path / "other", *COMPACT, *NOW, *one_by_one, "--memory", "1000")[0] == 0
    mine, other = ({name: facts[0] for name, facts in tree(each).items()} for each in (root, tmp_path / "other"))
    assert mine == other


def test_a_min_compaction_lag_keeps_what_is_young(root):
    lag = ("--config", "min.compaction.lag.ms=1000000000000")
    code, (found,), _ = objects("compact", root / "cmp-tx-0", *COMPACT, *NOW, *lag)
    assert (code, found["choice"], found["up_to"]) == (0, "nothing-dirty", "min-compaction-lag")


AT_ONCE = ("--config", "delete.retention.ms=0")


def logs(root):
    """The files of the segments and snapshots in place, and the lines of the cleaner's checkpoint, in any order."""
    files = tree(root)
    found = {name: facts[0] for name, facts in files.items() if name.endswith(("log", "index", "snapshot"))}
    return found | {CHECKPOINT: sorted(files[CHECKPOINT][0].splitlines())}


BOTH = ("--config", "segment.bytes=5000", "--config", "cleanup.policy=compact,delete")
LITTLE = ("--config", "retention.bytes=1500")


def test_retention_comes_after_cleaning(root, tmp_path):
    """As two commands would do it; each comes back by its own undo."""
    shutil.copytree(root, tmp_path / "other")
    before = tree(root)
    code, found, summary = objects("compact", root, *BOTH, *LITTLE, *NOW)
    assert code == 0
    assert kafkalog("compact", tmp_path / "other", *BOTH[:2], "--config", "cleanup.policy=compact", *NOW)[0] == 0
    code, _, err = kafkalog("retain", tmp_path / "other", *BOTH, *LITTLE, *NOW)
    assert (code, "cleaner-offset-checkpoint lists it" in err) == (14, True)
    for topic in {path.name.rpartition("-")[0] for path in (tmp_path / "other").iterdir() if path.is_dir()}:
        assert kafkalog("retain", tmp_path / "other", "--topic", topic, *BOTH, *LITTLE, *NOW)[0] == 0
    assert logs(root) == logs(tmp_path / "other")
    removed = [each["retention"]["removed"] for each in found]
    assert summary["removed_segments"] == sum(map(len, removed)) > 0
    pairs = [(each["run"], each["retention"]["run"]) for each in found if each["run"] and each["retention"]["run"]]
    assert pairs
    assert all(first < second for first, second in pairs)  # names of runs sort by time, also with an earlier --now
    assert objects("compact", root, *BOTH, *LITTLE, *NOW)[2]["changed"] == 0
    for each in found:
        for run_id in (each["retention"]["run"], each["run"]):
            if run_id:
                assert kafkalog("undo", each["path"], run_id, *NOW)[0] == 0
    after = tree(root)
    for name in set(after) - set(before):
        assert name.endswith("-checkpoint")
        after.pop(name)
    assert after == before


def test_retention_is_told(root):
    code, out, _ = kafkalog("compact", root / "cmp-tx-0", *BOTH, *LITTLE, *NOW, "--dry-run", "--verbose")
    assert code == 0
    assert re.search(r", at most \d+ segments removed by retention \(\d+(\.\d)? (bytes|KiB)\)", out)
    assert "setting retention.bytes=1500 (1.5 KiB; --config)" in out
    code, out, _ = kafkalog("compact", root / "cmp-tx-0", *BOTH, *LITTLE, *NOW)
    assert code == 0
    words, undo = out.strip().split("; undo retention: kafkalog undo ")
    assert "cleaned up to 180" in words
    assert "at most" not in words
    assert "removed by retention" in words
    retention, compaction = undo.split("; then undo for 60 s, and until a broker starts: kafkalog undo ")
    assert kafkalog("undo", *retention.split(), *NOW)[0] == 0
    assert kafkalog("undo", *compaction.split(), *NOW)[0] == 0


def test_what_both_warn_of_is_said_once(root, tmp_path):
    (tmp_path / "link").symlink_to(root)
    _, _, err = kafkalog("compact", tmp_path / "link" / "cmp-tx-0", *BOTH, *LITTLE, *NOW)
    assert err.count("the path leads to") == 1, err


def test_without_a_limit_it_is_only_cleaned(root):
    code, out, err = kafkalog("compact", root / "cmp-tx-0", *BOTH, *NOW)
    assert (code, "cleaned up to 180" in out) == (0, True)
    assert "cleaned, but retention removed nothing" in err


def test_a_dry_run_of_several_is_a_table(corpus, tmp_path):
    """As wide as its cells in a pipe, the dirtiest first; what programs get says the same."""
    root = tmp_path / "data"
    shutil.copytree(corpus / "compact-tx" / "before2", root)
    code, out, _ = kafkalog("compact", root, *COMPACT, *NOW, "--dry-run")
    *lines, last = out.splitlines()
    title, *rows = (re.split("  +", line) for line in lines)
    assert last.startswith("dry run: ")
    assert " partitions would be changed" in last
    found = objects("compact", root, *COMPACT, *NOW, "--dry-run")[1]
    assert code == 0
    titles = "PARTITION DIRTY-RATIO CLEAN DIRTY FIRST-DIRTY UP-TO LIMITED-BY RECORDS REMOVABLE SEGMENTS-REMOVED REASON"
    assert " ".join(title) == titles
    assert [row[0] for row in rows] == [each["path"] for each in found]
    sizes, fields = ("clean_bytes", "dirty_bytes"), ("first_dirty_offset", "first_uncleanable_offset")
    assert [row[2:4] for row in rows] == [[sized(each[name]) for name in sizes] for each in found]
    assert [[*map(int, row[4:6])] for row in rows] == [[each[name] for name in fields] for each in found]
    reasons = [each["choice"].replace("-", " ") for each in found]
    assert [(row[1], row[-1]) for row in rows] == [
        (f"{each['dirty_ratio']:.3f}", why) for each, why in zip(found, reasons, strict=True)
    ]
    assert [row[7:10] for row in rows] == [["-", "-", "-"]] * len(rows)
    (root / "cleaner-offset-checkpoint").unlink()  # its lines would protect the topics
    both = kafkalog("compact", root, *BOTH, *LITTLE, *NOW, "--dry-run")[1].splitlines()[1:-1]
    removed = {
        each["path"]: len(each["retention"]["removed"])
        for each in objects("compact", root, *BOTH, *LITTLE, *NOW, "--dry-run")[1]
    }
    assert {row[0]: int(row[9]) for row in (re.split("  +", line) for line in both)} == removed
    assert any(removed.values())
    counted = kafkalog("compact", root, *COMPACT, *NOW, "--dry-run", "--estimate")[1].splitlines()[1:-1]
    assert all(re.split("  +", line)[7].isdecimal() for line in counted if line.endswith("  dirty"))


def test_the_table_leaves_out_what_there_is_to_say_of_a_refused_one(root):
    swap = root / "cmp-tx-0" / f"{0:020d}.log.swap"
    swap.write_bytes(b"")
    code, out, _ = kafkalog("compact", root, *COMPACT, *NOW, "--dry-run")
    assert code == 5
    assert f"{root}/cmp-tx-0:\n" in out
    assert "it has files of an unfinished cleaning or split" in out
    assert next(line for line in out.splitlines() if line.startswith(f"{root}/cmp-tx-0 ")).endswith(" refused")

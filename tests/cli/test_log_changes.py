"""`kafkalog roll`, `retain`, `truncate`, `delete-records` from the command line: what they say, change and refuse."""

import json
import re
import shutil
import subprocess
import sys

import pytest

from tests.support.commands import kafkalog, tree
from tests.support.plain_changes import files

NOW_MS = 1795228795800
NOW = ("--now", str(NOW_MS))
MARKER = ".kafka_cleanshutdown"
DELETES = ("--config", "cleanup.policy=delete")
DAY_AND_NIGHT = ("--config", "retention.ms=60000000")


@pytest.fixture
def root(corpus, tmp_path):
    shutil.copytree(corpus / "retention" / "before", tmp_path / "data")
    return tmp_path / "data"


def undo_of(line):
    return line.rpartition("kafkalog ")[2].split()


# -- retain


def test_retain_says_a_line_and_undo_takes_it_back(root):
    before = tree(root)
    code, out, err = kafkalog("retain", root / "ret-time-0", *DAY_AND_NIGHT, *NOW)
    assert (code, err) == (0, "")
    (line,) = out.splitlines()
    words = "3 segments removed (11 KiB), offsets 98 to 120; undo for 60 s, and until a broker starts: kafkalog undo"
    assert line.startswith(f"{root}/ret-time-0: {words} {root}/ret-time-0 2")
    assert len(list((root / "ret-time-0").glob("*.deleted"))) == 11
    assert kafkalog(*undo_of(line), *NOW)[0] == 0
    assert tree(root) == before


@pytest.mark.parametrize("command", ["retain", "delete-records"])
def test_what_is_kept_comes_back_also_when_a_broker_has_started(root, command):
    """A broker unlinks all that is named .deleted; what the run keeps it does not see."""
    before = tree(root)
    partition = root / "ret-time-0"
    options = [*DAY_AND_NIGHT] if command == "retain" else ["--before", "98", "--single-replica"]
    code, out, err = kafkalog(command, partition, *options, *NOW, "--keep")
    assert code == 0, err
    assert "; undo: kafkalog undo " in out
    assert not list(partition.glob("*.deleted"))
    assert sorted(path.name for path in partition.glob("*.log")) == [f"{98:020d}.log"]
    assert kafkalog("purge", partition, *NOW)[0] == 0  # not old enough
    assert kafkalog(*undo_of(out.strip()), *NOW)[0] == 0
    assert tree(root) == before
    code, _, err = kafkalog(command, partition, *options, *NOW, "--keep", "--delay", "1s")
    assert (code, "--delay cannot be combined with --keep" in err) == (2, True)


def test_the_second_run_changes_nothing(root):
    policy = ("--config", "cleanup.policy=delete")
    argv = ["retain", root, "--topic", "ret-time", "--topic", "ret-size", *policy, *DAY_AND_NIGHT, *NOW]
    assert kafkalog(*argv)[0] == 0
    before = tree(root)
    code, out, _ = kafkalog(*argv)
    assert code == 0
    *lines, closing = out.splitlines()
    assert [" nothing to do, " in line for line in lines] == [True, True]
    assert closing.startswith("2 partitions: 0 changed, 2 unchanged, ")
    assert tree(root) == before
    assert kafkalog(*argv, "--quiet")[:2] == (0, "")


def test_a_dry_run_tells_and_changes_nothing(root):
    before = {str(path) for path in root.rglob("*")}
    contents = tree(root)
    retain = ("retain", root / "ret-time-0", *DAY_AND_NIGHT, *NOW, "--dry-run")
    code, out, _ = kafkalog(*retain)
    assert code == 0
    assert out.splitlines() == [
        f"{root}/ret-time-0: dry run: 3 segments removed (11 KiB), offsets 98 to 120",
        "dry run: nothing was changed; --verbose lists each change",
    ]
    lines = kafkalog(*retain, "--verbose")[1].splitlines()
    assert [lines[0], lines[-1]] == [out.splitlines()[0], "dry run: nothing was changed"]
    assert "  setting retention.ms=60000000 (1000 minutes; --config)" in lines
    assert f"  would rename {0:020d}.log to {0:020d}.log.deleted" in lines
    summary = kafkalog("retain", root, *DAY_AND_NIGHT, *NOW, "--dry-run", "--config", "cleanup.policy=delete")[1]
    assert re.fullmatch(
        r"dry run: \d of 9 partitions would be changed, \d+ segments \(\d+ KiB\) would be removed(, \d refused)?\."
        r" Nothing was changed; --verbose lists each change",
        summary.splitlines()[-1],
    )
    assert kafkalog(*retain, "--quiet")[1] == out.splitlines()[0] + "\n"
    assert {str(path) for path in root.rglob("*")} == before
    assert tree(root) == contents


def test_without_a_policy_that_somebody_set_nothing_goes(root):
    before = tree(root)
    code, out, err = kafkalog("retain", root, *DAY_AND_NIGHT, *NOW)
    assert code == 14
    assert out.startswith("9 partitions: 0 changed, 9 refused, ")
    assert err.count("no source says which cleanup.policy this topic has") == 9
    code, out, err = kafkalog("retain", root / "ret-time-0", *NOW)
    assert (code, out) == (14, "")
    assert "no source says which cleanup.policy this topic has" in err
    assert tree(root) == before
    # Named by its topic, or by its path, with a limit: delete may be assumed, but not of what was compacted.
    assert kafkalog("retain", root, "--topic", "ret-time", *DAY_AND_NIGHT, *NOW, "--dry-run")[0] == 0
    shutil.copy(root / "replication-offset-checkpoint", root / "cleaner-offset-checkpoint")
    code, _, err = kafkalog("retain", root / "ret-time-0", *DAY_AND_NIGHT, *NOW)
    assert code == 14
    assert "it was compacted" in err


def test_explain_tells_of_each_segment(root):
    argv = ["retain", root / "ret-time-0", *DAY_AND_NIGHT, "--dry-run", "--explain"]
    lines = kafkalog(*argv, *NOW)[1].splitlines()
    assert "  setting retention.ms=60000000 (1000 minutes; --config)" in lines
    header = next(
        number for number, line in enumerate(lines) if line.split() == ["OFFSETS", "SIZE", "NEWEST", "RESULT"]
    )
    segments = lines[header + 1 : header + 5]
    assert [line.split()[:3] for line in segments] == [
        ["0", "to", "33"], ["33", "to", "64"], ["64", "to", "98"], ["98", "to", "120"]
    ]  # fmt: skip
    assert [line.endswith("Z  removed: retention.ms") for line in segments] == [True, True, True, False]
    newest, _, due = segments[3].split()[-3:]
    assert (newest[-1], due[-1], max(map(len, segments)) <= 80) == ("Z", "Z", True)
    # At that time, to the millisecond, it goes.
    (*_, last) = json.loads(kafkalog(*argv, *NOW, "--format", "json")[1].splitlines()[0])["segments"]
    assert (last["stays"], last["setting"]["name"]) == ("within-limits", "retention.ms")
    for now_ms, goes in ((last["due_ms"] - 1, None), (last["due_ms"], "time")):
        found = json.loads(kafkalog(*argv, "--now", now_ms, "--format", "json")[1].splitlines()[0])
        assert found["segments"][3]["goes"] == goes
        assert found["rolled"] == (goes is not None)


def test_every_topic_of_a_log_directory_by_its_own_metadata_log(corpus):
    """The corpus' `internal` case: nothing is given but the directory."""
    data = corpus / "internal" / "data"
    code, out, err = kafkalog("retain", data, *NOW, "--dry-run", "--explain", "--format", "json")
    found = {each["path"].rpartition("/")[2]: each for each in map(json.loads, out.splitlines()[:-1])}
    fates = {
        name: (each["refused"], {segment["stays"] for segment in each["segments"]}) for name, each in found.items()
    }
    assert fates == {
        "__consumer_offsets-0": (False, {"cleanup-policy"}),
        "__transaction_state-0": (False, {"cleanup-policy"}),
        "__share_group_state-0": (False, {"no-limit"}),
        "in-a-0": (True, {"within-limits"}),
        "in-a-1": (True, {"empty-active"}),
        "in-b-0": (True, {"no-limit"}),
    }
    settings = {
        name: {(one["name"], one["value"], one["origin"]) for one in each["settings"]} for name, each in found.items()
    }
    assert ("retention.ms", "100000000", "dynamic-topic-config") in settings["in-a-0"]
    assert ("retention.ms", "604800000", "default-config") in settings["in-b-0"]
    assert ("cleanup.policy", "compact", "internal-topic") in settings["__consumer_offsets-0"]
    # What keeps them is said, with the flag that lifts it; with a policy in-a goes by the metadata log's limit, to
    # the ms.
    wanted = "Give the broker's server.properties with --broker-config FILE"
    assert all(found[name]["remarks"][0]["message"].endswith(wanted) for name in ("in-a-0", "in-b-0"))
    due_ms = found["in-a-0"]["segments"][0]["due_ms"]
    for now_ms, goes in ((due_ms - 1, None), (due_ms, "time")):
        argv = [
            "retain",
            data,
            "--topic",
            "in-a",
            *DELETES,
            "--now",
            now_ms,
            "--dry-run",
            "--explain",
            "--format",
            "json",
        ]
        code, out, _ = kafkalog(*argv)
        assert code == 0
        assert json.loads(out.splitlines()[0])["segments"][0]["goes"] == goes
    # The metadata log, and a topic that was deleted.
    assert sum("skipped: " in line for line in err.splitlines() if "no source" not in line) == 3


def test_a_time_to_come_keeps_a_segment_and_that_is_told(root):
    a_day_before = ("--now", NOW_MS - 86_400_000)
    code, out, _ = kafkalog("retain", root / "ret-future-0", "--config", "retention.ms=1", *a_day_before, "--explain")
    assert code == 3
    assert "is in the future: the segment is kept for that reason" in out
    assert "kept: newest is in the future; due " in out


def test_a_time_index_that_lies_is_told_and_not_followed(root):
    """KAFKA-10207: what a broker would go by is the index; the batches are the truth."""
    index = root / "ret-time-0" / f"{0:020d}.timeindex"
    index.write_bytes(b"")
    code, out, _ = kafkalog("retain", root / "ret-time-0", *DAY_AND_NIGHT, *NOW)
    assert code == 3
    assert "3 segments removed" in out
    assert "(KAFKA-10207)" in out
    assert f"  next: `kafkalog recover {root}/ret-time-0 --indexes-only` rebuilds it" in out


def test_deleted_files_go_when_they_are_due(root):
    argv = ["retain", root / "ret-time-0", *DAY_AND_NIGHT]
    kafkalog(*argv, *NOW, "--delay", "2h")
    assert "nothing to do" in kafkalog(*argv, "--now", NOW_MS + 7_199_999)[1]
    code, out, _ = kafkalog(*argv, "--now", NOW_MS + 7_200_000)
    assert code == 0
    assert out.split(": ")[1].startswith("11 old files unlinked (")
    assert not list((root / "ret-time-0").glob("*.deleted"))
    assert "nothing to do" in kafkalog(*argv, "--now", NOW_MS + 7_200_000)[1]


def test_without_delay_there_is_no_undo(root):
    code, out, _ = kafkalog("retain", root / "ret-time-0", *DAY_AND_NIGHT, *NOW, "--delay", "0s")
    assert code == 0
    assert out.endswith("cannot be undone\n")
    assert not list((root / "ret-time-0").glob("*.deleted"))


def test_a_log_of_seven_by_the_time_and_size_of_its_files(corpus, tmp_path):
    source = next(path for path in sorted((corpus / "format-0.7").rglob("*")) if list(path.glob("*.kafka")))
    target = tmp_path / source.name
    shutil.copytree(source, target)
    names = sorted(path.name for path in target.glob("*.kafka"))
    code, out, err = kafkalog("retain", target, "--config", "retention.bytes=1", "--delay", "1d")
    assert (code, err) == (0, ""), (out, err)
    gone = sorted(path.name for path in target.glob("*.deleted"))
    assert gone == [f"{name}.deleted" for name in names[:-1]]
    assert "nothing to do" in kafkalog("retain", target, "--config", "retention.bytes=1")[1]


# -- metrics


def test_metrics_as_prometheus_reads_them(root, tmp_path):
    target = tmp_path / "kafkalog.prom"
    argv = ["retain", root / "ret-time-0", *DAY_AND_NIGHT, *NOW, "--metrics", target]
    kafkalog(*argv, "--dry-run")
    assert not target.exists()
    kafkalog(*argv)
    assert target.stat().st_mode & 0o777 == 0o644
    target.chmod(0o640)
    found = metrics(target)
    assert found["kafkalog_last_run_removed_segments"] == 3
    assert found["kafkalog_last_run_removed_bytes"] == 11035
    assert (found["kafkalog_last_run_partitions"], found["kafkalog_last_run_changed"]) == (1, 1)
    kafkalog("retain", root, *NOW, "--metrics", target)
    found = metrics(target)
    assert (found["kafkalog_last_run_failed_partitions"], found["kafkalog_last_run_exit_code"]) == (9, 14)
    assert target.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in tmp_path.iterdir()] != []
    assert not list(tmp_path.glob("*.prom?*"))
    code, _, err = kafkalog(*argv[:-1], tmp_path / "no" / "such" / "place.prom")
    assert code == 1
    assert "the metrics cannot be written" in err


def metrics(path):
    parser = pytest.importorskip("prometheus_client.parser")
    families = list(parser.text_string_to_metric_families(path.read_text()))
    assert all(family.type == "gauge" and family.documentation for family in families)
    samples = [sample for family in families for sample in family.samples]
    assert {tuple(sample.labels.items()) for sample in samples} == {(("command", "retain"),)}
    assert len({sample.name for sample in samples}) == len(samples)
    return {sample.name: sample.value for sample in samples}


# -- roll


def test_roll_when_a_broker_would(root):
    partition = root / "ret-time-0"
    assert "nothing to do, offsets 0 to 120" in kafkalog("roll", partition, *NOW)[1]
    marker = (root / MARKER).read_bytes()
    code, out, err = kafkalog("roll", partition, *NOW, "--config", "segment.ms=1000")
    assert (code, err) == (0, "")
    assert out.split(": ")[1].startswith("rolled at 120 (time), offsets 0 to 120; undo")
    assert (partition / f"{120:020d}.log").read_bytes() == b""
    assert (root / MARKER).read_bytes() == marker
    # An empty segment is not rolled again.
    code, out, _ = kafkalog("roll", partition, *NOW, "--config", "segment.ms=1000", "--force")
    assert (code, out) == (0, f"{partition}: nothing to do, the active segment is empty, offsets 0 to 120\n")


def test_an_empty_segment_whose_indexes_are_not_made_yet(root):
    """A broker that was killed just after it rolled leaves it so."""
    (root / MARKER).unlink()
    (root / "ret-time-0" / f"{120:020d}.log").touch()
    code, out, _ = kafkalog("roll", root / "ret-time-0", *NOW, "--force")
    assert (code, out) == (0, f"{root}/ret-time-0: nothing to do, the active segment is empty, offsets 0 to 120\n")


def test_roll_by_force(root):
    before = tree(root)
    code, out, _ = kafkalog("roll", root / "ret-time-0", *NOW, "--force")
    assert code == 0
    assert "rolled at 120 (forced)" in out
    assert kafkalog(*undo_of(out.strip()), *NOW)[0] == 0
    assert tree(root) == before


# -- roll


def test_the_marker_stays_away_where_damage_is_found_though_nothing_was_lost(root):
    """With the marker a broker would look at no batch, and serve one that cannot be read."""
    partition = root / "ret-both-0"
    (root / MARKER).write_bytes(b'{"version":0,"brokerEpoch":1}')
    code, out, err = kafkalog("roll", partition, "--force", *NOW)
    assert (code, "leaves every in-sync replica set" in err) == (0, False)
    assert (root / MARKER).exists()
    assert kafkalog(*undo_of(out.strip()), *NOW)[0] == 0
    log = partition / f"{0:020d}.log"
    log.write_bytes(bytes((*log.read_bytes()[:99], log.read_bytes()[99] ^ 1, *log.read_bytes()[100:])))
    code, _, err = kafkalog("roll", partition, "--force", *NOW)
    assert (code, "leaves every in-sync replica set" in err) == (0, True)
    assert not (root / MARKER).exists()


# -- truncate


def test_truncate_keeps_what_goes_and_the_marker_stays_away(root):
    before = tree(root)
    partition = root / "ret-both-0"
    code, out, err = kafkalog("truncate", root, "--topic", "ret-both", "--to", 50, "--single-replica", *NOW)
    assert code == 0
    words = "the log ends at 46, not 50: batch 46 to 50 cannot be split, 2 segments removed, 2.0 KiB cut, offsets 0 to 46; undo:"
    assert out.startswith(f"{partition}: {words} kafkalog undo {partition}")
    assert not (root / MARKER).exists()
    assert "leaves every in-sync replica set" in err
    for name in ("recovery-point", "replication"):
        assert "ret-both 0 46\n" in (root / f"{name}-offset-checkpoint").read_text()
    assert kafkalog(*undo_of(out.strip()), *NOW)[0] == 0
    assert tree(root) == before


def test_truncate_refuses_other_replicas_and_offsets_outside(root):
    before = tree(root)
    code, _, err = kafkalog("truncate", root / "ret-both-0", "--to", 50, *NOW)
    assert code == 14
    path = root / "ret-both-0"
    assert f"(to go on: `kafkalog truncate {path} --to 50 --now {NOW[1]} --single-replica`)" in err
    code, _, err = kafkalog("truncate", root / "ret-both-0", "--to", 121, "--single-replica", *NOW)
    assert code == 1
    assert "valid range is 0 to 120" in err
    code, _, err = kafkalog("truncate", root, "--to", 50, "--single-replica", *NOW)
    assert code == 2
    assert "takes one partition" in err
    assert tree(root) == before


def test_truncate_at_the_end_loses_nothing(root):
    code, out, _ = kafkalog("truncate", root / "ret-both-0", "--to", 120, "--single-replica", *NOW)
    assert (code, out) == (0, f"{root}/ret-both-0: nothing to do, offsets 0 to 120\n")
    assert (root / MARKER).exists()


def test_truncate_without_keeping(root):
    out = kafkalog("truncate", root / "ret-both-0", "--to", 50, "--single-replica", *NOW, "--discard")[1]
    assert out.endswith("; cannot be undone\n")


# -- delete-records


def test_delete_records(root):
    before = tree(root)
    partition = root / "ret-both-0"
    code, out, _ = kafkalog("delete-records", partition, "--before", 57, "--single-replica", *NOW)
    assert code == 0
    words = "records before 57 deleted (the log started at 0), 1 segment removed (3"
    assert out.startswith(f"{partition}: {words}")
    assert "ret-both 0 57\n" in (root / "log-start-offset-checkpoint").read_text()
    assert (root / MARKER).exists()
    again = kafkalog("delete-records", partition, "--before", 57, "--single-replica", *NOW)[1]
    assert again == f"{partition}: nothing to do, offsets 57 to 120\n"
    assert kafkalog(*undo_of(out.strip()), *NOW)[0] == 0
    after = tree(root)
    after.pop("log-start-offset-checkpoint", None), before.pop("log-start-offset-checkpoint", None)
    assert after == before


def test_delete_records_up_to_the_high_watermark(root):
    checkpoint = root / "replication-offset-checkpoint"
    checkpoint.write_text(checkpoint.read_text().replace("ret-both 0 120", "ret-both 0 70"))
    partition = root / "ret-both-0"
    code, _, err = kafkalog("delete-records", partition, "--before", 71, "--single-replica", *NOW)
    assert code == 1
    assert "valid range is 0 to 70" in err
    out = kafkalog("delete-records", partition, "--before", -1, "--single-replica", *NOW)[1]
    assert "records before 70 deleted" in out


# -- all of them


@pytest.mark.parametrize(
    "argv",
    [
        ("roll", "--force"),
        ("retain", *DELETES, *DAY_AND_NIGHT),
        ("truncate", "--to", "3", "--single-replica"),
        ("delete-records", "--before", "3", "--single-replica"),
    ],
)
@pytest.mark.parametrize("kind", ["metadata", "damaged"])
def test_what_is_left_alone(corpus, tmp_path, argv, kind):
    if kind == "metadata":
        target = tmp_path / "data"
        shutil.copytree(corpus / "internal" / "data", target)
        directory = target / "__cluster_metadata-0"
    else:
        target = tmp_path / "before"
        shutil.copytree(corpus / "crash-torn" / "before", target)
        directory = target / "crash-torn-0"
    before = files(directory)
    code, out, err = kafkalog(argv[0], directory, *argv[1:], *NOW)
    if (kind, argv[0]) == ("damaged", "retain"):
        # Its end is torn: what lies before goes, the last segment stays.
        assert code == 3
        assert "it is damaged at its end, and stays" in out
        assert (directory / f"{115:020d}.log").exists()
    else:
        assert code == 14, (out, err)
        assert files(directory) == before


@pytest.mark.parametrize("name", ["replication", "log-start", "recovery-point"])
def test_a_checkpoint_that_cannot_be_read_is_not_one_without_a_line(root, name):
    """Without a line the high watermark is the log's end: records that no replica has would go."""
    checkpoint = root / f"{name}-offset-checkpoint"
    checkpoint.write_bytes(b"0\n9\nret-time 0 40\nret")
    before = tree(root)
    for argv in (
        ["retain", root / "ret-time-0", *DAY_AND_NIGHT],
        ["roll", root / "ret-time-0", "--force"],
        ["truncate", root / "ret-time-0", "--to", 50, "--single-replica"],
        ["delete-records", root / "ret-time-0", "--before", 50, "--single-replica"],
    ):
        code, out, _ = kafkalog(*argv, *NOW)
        assert code == 14
        assert "its line for this partition is unknown" in out
    assert tree(root) == before


def test_a_run_that_was_cut_off_is_taken_back_first(root):
    partition = root / "ret-time-0"
    before = tree(root)
    out = kafkalog("retain", partition, *DAY_AND_NIGHT, *NOW)[1]
    manifest = next(partition.glob(".kafkalog/*/manifest.json"))
    manifest.write_text(manifest.read_text().replace('"state": "done"', '"state": "started"'))
    (partition / f"{0:020d}.index.deleted").rename(partition / f"{0:020d}.index")
    code, out, err = kafkalog("retain", partition, *DAY_AND_NIGHT, *NOW, "--dry-run")
    assert "was cut off half way, and would be undone first" in err
    code, out, err = kafkalog("retain", partition, *DAY_AND_NIGHT, *NOW)
    assert code == 0
    assert "was cut off half way, and is undone now" in err
    assert "3 segments removed (11 KiB)" in out
    assert kafkalog(*undo_of(out.strip()), *NOW)[0] == 0
    assert tree(root) == before


def test_locked_by_another(root):
    (root / ".lock").touch()
    program = f"""
import fcntl, subprocess, sys
file = open({str(root / ".lock")!r}, "r+")
fcntl.lockf(file, fcntl.LOCK_EX)
argv = ["retain", {str(root / "ret-time-0")!r}, "--config", "retention.ms=1", "--now", "{NOW_MS}"]
sys.exit(subprocess.run([sys.executable, "-m", "kafkalog_cli", *argv]).returncode)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 11
    assert (root / "ret-time-0" / f"{0:020d}.log").exists()

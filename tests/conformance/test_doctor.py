"""`doctor`: the steps of a broker's start, and the next commands for log directories that are broken in many ways.

The commands are run, literally. Their effect is judged by a second examination.
"""

import io
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kafkalog_cli as kl
from tests.support.archives import FIXTURES
from tests.support.commands import json_of, kafkalog
from tests.support.logs import R, batch_v2
from tests.support.metadata_logs import batches, partition, topic_id, value
from tests.support.product import Environment, run
from tests.support.schemas import check

EXAMPLE = Path(__file__).parents[2] / "docs" / "example"
FIRST = f"{0:020}"
MIXED = "mixed-0"
WAYS = {}
EFFECTS = ("nothing", "copies", "reversible", "permanent")


def way(action, command, *, loses=False, options=(), mends=True):
    """The function breaks `kafka` in the working directory: the broker's step, and the command that doctor names."""

    def add(make):
        WAYS[make.__name__] = (make, action, command, loses, options, mends)
        return make

    return add


@pytest.fixture
def kafka(tmp_path, monkeypatch):
    """A sound log directory of a broker that stopped cleanly, in the working directory; `meta` has its metadata log."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(EXAMPLE, "kafka")
    folder = Path("kafka")
    (folder / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":7}')
    records = []
    for topic in ("mixed", "levels"):
        own_id = (folder / f"{topic}-0" / "partition.metadata").read_text().split()[-1]
        records += [value("TopicRecord", name=topic, topicId=own_id), partition(own_id), partition(own_id, number=1)]
    log = Path("meta/__cluster_metadata-0")
    log.mkdir(parents=True)
    (log / f"{FIRST}.log").write_bytes(batches([records])[0])
    return folder


def last_log(folder):
    return max((folder / MIXED).glob("*.log"))


def first_log(folder):
    return min((folder / MIXED).glob("*.log"))


def unclean(folder):
    (folder / ".kafka_cleanshutdown").unlink()


@way("cuts", "kafkalog recover kafka/mixed-0", loses=True)
def torn_tail(folder):
    unclean(folder)
    with last_log(folder).open("ab") as log:
        log.write(batch_v2([R(125, 0, b"k", b"v" * 100)])[:90])


@way("cuts", "kafkalog recover kafka/mixed-0 --salvage salvaged", loses=True, mends=False)
def damage_before_valid_batches(folder):
    unclean(folder)
    (folder / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    log = first_log(folder)
    data = bytearray(log.read_bytes())
    data[100] ^= 0xFF
    log.write_bytes(data)


@way("rebuilds", "kafkalog recover kafka/mixed-0 --indexes-only")
def missing_index(folder):
    first_log(folder).with_suffix(".index").unlink()


@way("takes-offline", "kafkalog recover kafka")
def malformed_checkpoint(folder):
    (folder / "recovery-point-offset-checkpoint").write_text("0\nthree\nmixed 0 10\n")


@way("does-not-start", "findmnt --target kafka", mends=False)
def no_meta_properties(folder):
    (folder / "meta.properties").unlink()


@way("does-not-start", "mv -nT kafka/backup backup")
def foreign_directory(folder):
    (folder / "backup").mkdir()


@way("does-not-start", "mv -nT kafka/mixed-0/old.log kafka/mixed-0/old.log.aside")
def name_without_an_offset(folder):
    (folder / MIXED / "old.log").touch()


@way("removes", "sed -i.aside 's/^mixed 0 900$/mixed 0 0/' kafka/log-start-offset-checkpoint", loses=True)
def log_start_beyond_the_end(folder):
    (folder / "log-start-offset-checkpoint").write_text("0\n1\nmixed 0 900\n")


@way("sets-aside", "kafkalog recover kafka/mixed-0 --metadata meta", options=("--metadata", "meta"))
def no_topic_id(folder):
    (folder / MIXED / "partition.metadata").unlink()


@way("sets-aside", f"kafkalog recover kafka/mixed-0.{'a' * 32}-stray --metadata meta", options=("--metadata", "meta"))
def stray_partition(folder):
    (folder / MIXED).rename(folder / f"mixed-0.{'a' * 32}-stray")


@way("lowers", "kafkalog recover kafka/mixed-0")
def high_watermark_beyond_the_end(folder):
    (folder / "replication-offset-checkpoint").write_text("0\n1\nmixed 0 700\n")


@way("lowers", "kafkalog recover kafka/mixed-0")
def no_log_file(folder):
    for log in (folder / MIXED).glob("*.log"):
        log.unlink()


@way("trusts", "kafkalog recover kafka/mixed-0")
def damaged_producer_snapshot(folder):
    for log in (folder / MIXED).glob("*.log"):
        log.with_suffix(".snapshot").write_bytes(b"\0\1garbage")


def doctor(*arguments):
    code, lines, _ = json_of("doctor", *arguments)
    assert lines[-1]["exit_code"] == code
    check(map(json.dumps, lines))
    return lines


def of_type(lines, name):
    return [line for line in lines if line["type"] == name]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", WAYS)
def test_the_right_command_is_named_and_helps(name, kafka):
    make, action, command, loses, options, mends = WAYS[name]
    assert doctor(kafka, *options)[-1]["exit_code"] == 0
    make(kafka)
    before = {path: path.read_bytes() for path in sorted(kafka.rglob("*")) if path.is_file()}
    lines = doctor(kafka, *options)
    assert {path: path.read_bytes() for path in sorted(kafka.rglob("*")) if path.is_file()} == before
    steps = of_type(lines, "start-step")
    assert action in [step["action"] for step in steps], steps
    assert any(step["loses_data"] for step in steps) is loses, steps
    commands = of_type(lines, "next-command")
    argvs = [one["argv"] for one in commands]
    assert shlex.split(command) in argvs, argvs
    effects = [EFFECTS.index(one["effect"]) for one in commands if one["argv"]]
    assert effects == sorted(effects)
    if mends:
        assert action == "sets-aside" or lines[-1]["exit_code"] != 0
        done = (
            run(shlex.split(command)[1:]) if command.startswith("kafkalog ") else subprocess.call(shlex.split(command))
        )
        assert done == 0
        after = doctor(kafka, *options)
        assert not any(step["ends_start"] or step["loses_data"] for step in of_type(after, "start-step"))
        assert after[-1]["exit_code"] == 0, of_type(after, "finding")


def test_the_ways_to_break_a_log_directory_are_at_least_ten():
    assert len(WAYS) >= 10
    assert len({command for _, _, command, *_ in WAYS.values()}) >= 8


LINES = [line.split("\t") for line in (FIXTURES / "broker_lines.tsv").read_text().splitlines()]
"""Page, command and line. Real brokers wrote the lines: 4.2.0 on broken directories, and older ones in public reports."""
PARTITION = re.compile(r"\b([A-Za-z_]+(?:-[a-z]+)*-\d)(?=[/,\]. :])")


def test_recorded_broker_lines_cover_many_pages():
    assert len(LINES) >= 40
    assert len({slug for slug, _, _ in LINES}) >= 28


@pytest.mark.exhaustive
@pytest.mark.parametrize(("slug", "command", "line"), LINES, ids=lambda word: word[:40])
def test_a_line_leads_to_its_page_and_its_command(slug, command, line, kafka):
    Path("server.properties").write_text("node.id=1\n")
    found = PARTITION.search(line)
    here = kafka / (MIXED if found is None else found[1])
    if not here.exists():
        shutil.copytree(kafka / MIXED, here)
    lines = doctor(kafka, line, "--broker-config", "server.properties", "--metadata", "meta", "--level", "quick")
    known = of_type(lines, "broker-line")
    assert slug in [one["slug"] for one in known]
    words = [word.replace("D/", "kafka/") if word.startswith("D/") else word for word in shlex.split(command)]
    words = [{"D": "kafka", "P": str(here)}.get(word, word) for word in words]
    words = [f"{here}{word[1:]}" if word.startswith("P/") else word for word in words]
    argvs = [one["argv"] for one in of_type(lines, "next-command")]
    assert words in argvs, argvs
    assert not any("/var/lib/kafka" in word or "/etc/kafka" in word for argv in argvs for word in argv or ())


def test_the_commands_for_a_controller_name_the_metadata_log_of_the_directory(kafka):
    shutil.copytree("meta/__cluster_metadata-0", kafka / "__cluster_metadata-0")
    lines = doctor(kafka, "Error while loading snapshot 00000000000000000090-0000000001", "--level", "quick")
    assert ["kafkalog", "cluster", "kafka"] in [one["argv"] for one in of_type(lines, "next-command")]


def test_a_node_cuts_its_metadata_log_once(kafka):
    folder = kafka / "__cluster_metadata-0"
    folder.mkdir()
    records = [[value("TopicRecord", name=f"t{number}", topicId=topic_id(number))] for number in range(6)]
    for first in (0, 3):
        log, _ = batches(records[first : first + 3], first)
        (folder / f"{first:020}.log").write_bytes(log[:70] + b"\xff" + log[71:])
    _, found, _ = json_of("doctor", kafka)
    damaged = [line["path"] for line in found if line["type"] == "finding" and line["kind"] == "crc-mismatch"]
    assert [Path(path).name for path in damaged] == [f"{first:020}.log" for first in (0, 3)]
    steps = [line for line in found if line["type"] == "start-step" and "__cluster_metadata" in line["path"]]
    assert [(step["action"], step["path"]) for step in steps] == [("cuts", damaged[0])]


def test_an_unknown_text_is_a_warning(kafka):
    out, err = io.BytesIO(), io.BytesIO()
    assert run(["doctor", str(kafka), "the printer is on fire"], Environment(stdout=out, stderr=err)) == 3
    assert b"no page" in err.getvalue()
    assert b"3 partitions, its broker stopped cleanly" in out.getvalue()


def test_a_line_helps_where_no_log_directory_is(kafka):
    Path("empty").mkdir()
    assert run(["doctor", "empty"], Environment(stdout=io.BytesIO(), stderr=io.BytesIO())) == 10
    lines = doctor("empty", "java.lang.RuntimeException: No readable meta.properties files found.")
    assert lines[-1]["exit_code"] == 10
    assert ["findmnt", "--target", "empty"] in [one["argv"] for one in of_type(lines, "next-command")]


def test_many_partitions_get_one_command(kafka):
    for number in range(2, 8):
        shutil.copytree(kafka / MIXED, kafka / f"mixed-{number}")
        (kafka / f"mixed-{number}" / f"{FIRST}.index").unlink()
    argvs = [one["argv"] for one in of_type(doctor(kafka), "next-command")]
    assert argvs == [
        ["kafkalog", "recover", "kafka", "--indexes-only", "--dry-run"],
        ["kafkalog", "recover", "kafka", "--indexes-only"],
    ]


def test_the_library_gives_the_examination(kafka):
    torn_tail(kafka)
    found = kl.doctor(kafka)
    assert [one.argv for one in found.commands if one.effect.name == "REVERSIBLE"] == [
        ("kafkalog", "recover", "kafka/mixed-0")
    ]
    assert kl.open(kafka).doctor("Corruption found in segment 0, truncating to offset 1").lines
    assert found.exit_code == 3


def test_all_log_directories_of_a_broker_are_examined_together(kafka):
    """Each has its next start; a partition in two of them, and one directory id, are seen only from both."""
    shutil.copytree(kafka / MIXED, "more/mixed-0")
    shutil.copy(kafka / "meta.properties", "more")
    line = f"Error while renaming dir for mixed-0 in log dir {Path('more').absolute()}"
    lines = doctor(kafka, "more", line)
    assert [one["path"] for one in of_type(lines, "examination")] == ["kafka", "more"]
    found = {(one["kind"], one["path"]) for one in of_type(lines, "finding")}
    assert {("twin-directories", "kafka/mixed-0"), ("meta-properties-differ", "more/meta.properties")} <= found
    ends = [one["path"] for one in of_type(lines, "start-step") if one["ends_start"]]
    assert ends == ["kafka/mixed-0", "more/meta.properties", "more/mixed-0"]
    assert ["ls", "-ld", "more"] in [one["argv"] for one in of_type(lines, "next-command")]
    assert kafkalog("doctor", "kafka", "more", line)[1].count("At its next start, the broker") == 2


def test_a_second_log_directory_that_is_missing_or_of_nobody_is_named(kafka):
    code, _, err = kafkalog("doctor", "kafka", "./kafka2")
    assert (code, "./kafka2: no such file" in err) == (10, True)
    Path("empty").mkdir()
    code, out, err = kafkalog("doctor", "kafka", "empty")
    assert "kafka: broker 1" in out
    assert "kafkalog: empty: is neither a log directory nor a partition directory" in err
    assert code != 0


def test_a_running_broker_is_named(kafka):
    lock = (kafka / ".lock").open("w")
    with lock:
        holder = subprocess.Popen(
            [sys.executable, "-c", f"import fcntl; f = open({str(kafka / '.lock')!r}, 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); print(1, flush=True); input()"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        with holder:
            holder.stdout.readline()
            steps = of_type(doctor(kafka), "start-step")
            holder.communicate(b"\n")
    assert [step["action"] for step in steps] == ["nothing"]
    assert str(holder.pid) in steps[0]["message"]


def test_the_steps_are_those_of_real_brokers(corpus):
    """The log of the broker that loaded each crashed partition has the cuts, the segments removed, and no other."""
    cuts = removed = 0
    for case in sorted(path for path in corpus.glob("crash-*") if (path / "before").is_dir()):
        log = (case / "recovery.log").read_text()
        name = re.escape(f"{case.name}-0")
        real_cuts = {
            (file, at)
            for file, at in re.findall(
                rf"Found invalid messages in log segment \S+/{name}/(\S+) at byte offset (\d+)", log
            )
        }
        found = re.findall(rf"partition={name},[^\n]*Deleting segments as part of log recovery: ([^\n]*)", log)
        real_removed = {base for line in found for base in re.findall(r"baseOffset=(\d+)", line)}
        steps = kl.doctor(case / "before").steps
        ours = {
            (Path(one.path).name, re.search(r"from byte (\d+)", one.message)[1])
            for one in steps
            if one.action.value == "cuts"
        }
        gone = {str(int(Path(one.path).stem)) for one in steps if one.action.value == "removes"}
        assert real_cuts <= ours, case.name
        assert real_removed == gone, case.name
        cuts += len(real_cuts)
        removed += len(real_removed)
    assert cuts >= 6
    assert removed >= 2


def test_the_command_for_more_findings_can_be_pasted(tmp_path):
    log_dir = tmp_path / "a disk"
    for number in range(22):
        (log_dir / f"t-{number}").mkdir(parents=True)
        (log_dir / f"t-{number}" / f"{FIRST}.log").write_bytes(bytes(40))
    code, out, _ = kafkalog("doctor", str(log_dir))
    (line,) = [line for line in out.splitlines() if "more finding" in line]
    command = shlex.split(line.partition(": ")[2])
    assert command == ["kafkalog", "verify", str(log_dir)]
    assert kafkalog(*command[1:])[0] == code


@pytest.mark.parametrize(("is_clean", "action"), [(True, "trusts"), (False, "recovers")])
def test_a_copy_for_this_log_directory_is_a_log_that_a_broker_loads(kafka, is_clean, action):
    """LogManager.loadLog loads a -future directory like any other. Only -delete and -stray are left alone."""
    copy = kafka / f"mixed-0.{'a' * 32}-future"
    shutil.copytree(kafka / MIXED, copy)
    if not is_clean:
        unclean(kafka)
    steps = of_type(doctor(kafka), "start-step")
    assert (action, str(copy)) in [(one["action"], one["path"]) for one in steps]
    assert "4 logs are" in steps[0]["message"]  # with three partitions


def test_steps_that_are_left_out_are_counted_in_their_place(tmp_path, monkeypatch):
    """A reader who misses step 12 finds at its place which steps are like it; step 15 follows."""
    monkeypatch.chdir(tmp_path)
    torn = {**{f"orders-{number}": b"torn" for number in range(13)}, "users-0": b"torn tail"}
    for name, tail in torn.items():
        (tmp_path / "kafka" / name).mkdir(parents=True)
        (tmp_path / "kafka" / name / f"{FIRST}.log").write_bytes(batch_v2([R(0, 1_700_000_000_000)]) + tail)
    (tmp_path / "kafka" / "meta.properties").write_text("version=0\nbroker.id=1\n")
    lines = kafkalog("doctor", "kafka")[1].splitlines()
    steps = [line for line in lines[lines.index("At its next start, the broker") + 1 :] if line.startswith("  ")]
    assert [line.split()[0] for line in steps[:13]] == [*(f"{number}." for number in range(1, 12)), "3", "15."]
    assert steps[11] == "  3 steps more like step 2: --format json has all"

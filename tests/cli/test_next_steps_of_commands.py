"""Every refusal, warning and remark that names a command: the command is run as a shell takes it, and leads to a clean
verify. `test_every_next_step` does the same for the findings of verify."""

import os
import re
import shutil
import socket
import struct
import subprocess
from pathlib import Path

import pytest

from tests.cli.test_every_next_step import DISK, LOG, OTHER, PARTITION, changed, from_corpus, kafkalog, sound, starts
from tests.damage.test_verify_places import log_dir, metadata_log, partition, ten_batches, topic
from tests.support.logs import BASE_TIME_MS, write_segment
from tests.support.product import RULES

COMMAND = re.compile(r"`((?:kafkalog|mv|cp|rm|sed) [^`]+)`")
UNDO = re.compile(r"undo: ((?:kafkalog undo|mv) .+)")
NOT_COMMANDS = {
    "foreign-layout": "files of another program",
    "metadata-log": "nothing is to be done",
    "marked-directory": "nothing is to be done",
    "odd-topic": "no broker made it",
    "not-assigned": "the records belong to another partition or broker, which the operator chooses",
    "clock": "only the operator knows the time",
    "no-policy": "a file or directory that only the operator knows is named by its option",
    "overridden-policy": "the operator decides; the option is named",
    "other-topic": "decide before a broker starts which data are right",
    "no-limit": "as no-policy",
    "illegal-setting": "the operator knows the value",
    "outdated-settings": "the operator knows the value",
    "unread-policy": "a warning: only the operator knows the directory of the metadata log",
    "linked-directory": "a warning: where the path leads",
    "no-topic-id": "only the operator knows the id, or the directory of the metadata log",
    "marker-stays-away": "a warning: what the broker will do",
}
"""The rules whose message has no command, and why."""

SECOND = "AAAAAAAAAAAAAAAAAAAAAg"
CASES = {}


def case(*rules, code=14, ends=0):
    """The function makes the state, and returns the command line that meets it; `code` is its exit code.

    `ends` is the exit code of verify after the printed commands.
    """

    def add(make):
        CASES[make.__name__] = (make, rules, code, ends)
        return make

    return add


def words_of(command):
    """The words of a command as bash takes it apart."""
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True)
    return os.fsdecode(done.stdout).split("\0")[:-1]


def execute(command):
    if not command.startswith("kafkalog "):
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr
    return kafkalog(*words_of(command)[1:])


def commands_in(text):
    return list(dict.fromkeys(COMMAND.findall(text)))


def followed(argv, code, ends):
    """Run a command line, then what it prints, then what that prints, then what verify prints.

    A refused command line is repeated where its message says so.
    """
    found, out, err = kafkalog(*argv)
    assert found == code, (found, out, err)
    told, done, steps = commands_in(out + err), {}, 0
    assert told, (out, err)
    is_repeated = "the same command again" in out + err
    while told:
        command = told.pop(0)
        if done.get(command, 14) != 14:
            continue
        steps += 1
        assert not re.search(r"(?<![\w/.-])(PATH|FILE|BYTES|DIR)(?![\w/.-])", command), command
        done[command], out, err = execute(command)
        assert done[command] in (0, 3, 4, 14), (command, out, err)
        assert done[command] != 14 or commands_in(out + err), (command, out, err)
        told = [*commands_in(out + err), *told]
        if not told and (is_repeated or "the same command again" in out + err):
            is_repeated, (found, out, err) = False, kafkalog(*argv)
            assert found in (0, 3) or commands_in(out + err), (argv, out, err)
            told = commands_in(out + err)
        if not told:
            told = [one for one in commands_in(kafkalog("verify", DISK)[1]) if done.get(one, 14) == 14]
        assert steps < 20, done
    found, out, _ = kafkalog("verify", DISK)
    assert found == ends, f"{done}\n{out}"


def torn(data):
    return data + data[:30]


def flipped(data):
    data[200] ^= 0xFF


def only_replica():
    metadata_log(Path("meta data"), *topic(1, "topic", replicas=(1,), isr=(1,)))
    return ["--metadata", "meta data"]


# ---- the table of refusals


@case("odd-files")
def odd_files():
    sound()
    os.mkfifo(PARTITION / f"{20:020}.index")
    return ["recover", DISK]


@case("odd-files")
def an_odd_socket():
    sound()
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(PARTITION / f"{20:020}.log"))
    return ["recover", DISK]


@case("foreign-link", code=5)
def a_link_to_a_directory_without_a_log():
    sound()
    Path("empty").mkdir()
    (DISK / "other-0").symlink_to(Path("empty").resolve())
    return ["roll", DISK, "--force"]


@case("linked-files")
def linked_files():
    changed(torn)
    Path("backup").mkdir()
    os.link(PARTITION / LOG, Path("backup") / LOG)
    return ["recover", DISK]


@case("linked-files")
def linked_symbolically():
    changed(torn)
    shutil.move(PARTITION / LOG, "elsewhere.log")
    (PARTITION / LOG).symlink_to(Path("elsewhere.log").resolve())
    return ["truncate", DISK, "--to", "10", "--single-replica"]


@case("twins")
def twins():
    sound()
    log_dir(OTHER, directory=2)
    partition(OTHER)
    return ["roll", DISK, OTHER, "--force"]


@case("tiered")
def supposed_to_be_tiered():
    log_dir(DISK, lines=[("log-start", "topic", 0, 3)])
    folder = partition(DISK, written=ten_batches(), epochs=None)
    for path in folder.glob("000*"):
        path.unlink()
    write_segment(folder, 4, ten_batches()[2:])
    return ["delete-records", DISK, "--before", "10", "--single-replica"]


@case("replicated")
def replicated():
    sound()
    metadata_log(Path("meta data"), *topic(1, "topic", replicas=(1, 2), isr=(1, 2)))
    return ["truncate", DISK, "--to", "10", "--metadata", "meta data"]


@case("unknown-replication")
def unknown_replication():
    sound()
    return ["truncate", DISK, "--to", "10"]


@case("unknown-replication")
def unknown_replication_of_an_append():
    sound()
    Path("more lines").write_text("a\nb\n")
    return ["append", PARTITION, "more lines", "--input", "lines"]


@case("never-deletes")
def never_deletes():
    sound()
    return ["delete-records", DISK, "--before", "10", "--single-replica", "--config", "cleanup.policy=compact"]


# ---- logs that must be repaired before they are changed

VERBS = {
    "roll": ["--force"],
    "retain": ["--topic", "topic", "--config", "retention.ms=1", "--config", "cleanup.policy=delete"],
    "truncate": ["--to", "10", "--single-replica"],
    "delete-records": ["--before", "10", "--single-replica"],
    "append": ["more lines", "--input", "lines", "--single-replica"],
}


def before_a_repair(verb, options):
    def make():
        changed(torn)
        Path("more lines").write_text("a\n")
        return [verb, PARTITION, *options]

    make.__name__ = f"{verb} of a torn log"
    return make


for _verb, _options in VERBS.items():
    case(code=3 if _verb == "retain" else 14)(before_a_repair(_verb, _options))


@case()
def unfinished_cleaning():
    sound()
    shutil.copy(PARTITION / LOG, PARTITION / f"{LOG}.swap")
    return ["roll", DISK, "--force"]


@case()
def damage_before_the_end_of_a_damaged_log():
    changed(lambda data: flipped(data) or torn(data))
    return ["truncate", PARTITION, "--to", "10", "--single-replica"]


# ---- recover


@case()
def damage_before_valid_batches():
    changed(flipped)
    return ["recover", DISK]


@case()
def damage_with_one_replica():
    changed(flipped)
    return ["recover", DISK, *only_replica()]


@case()
def damage_with_other_replicas():
    changed(flipped)
    metadata_log(Path("meta data"), *topic(1, "topic", replicas=(1, 2), isr=(1, 2)))
    return ["recover", DISK, "--metadata", "meta data"]


@case()
def damage_like_a_broker():
    changed(lambda data: data.__setitem__(slice(starts()[3], starts()[5]), bytes(starts()[5] - starts()[3])))
    return ["recover", DISK, "--like-broker"]


@case()
def a_checkpoint_that_stops_a_broker():
    sound()
    (DISK / "recovery-point-offset-checkpoint").write_bytes(b"0\n1\nnonsense\n")
    return ["recover", DISK, "--like-broker"]


@case(code=4)
def salvaged():
    changed(flipped)
    return ["recover", DISK, "--salvage", "the copies"]


@case()
def salvaged_twice():
    changed(flipped)
    assert kafkalog("recover", DISK, "--salvage", "the copies")[0] == 4
    return ["recover", DISK, "--salvage", "the copies"]


@case()
def a_salvage_that_was_cut_off():
    changed(flipped)
    Path("the copies/topic-0.partial").mkdir(parents=True)
    return ["recover", DISK, "--salvage", "the copies"]


@case(code=0)
def a_stray_is_skipped():
    stray()
    partition(DISK, "other-1", of=SECOND)
    return ["recover", DISK, *only_replica()]


@case()
def a_stray_whose_place_is_taken():
    path = stray()
    partition(DISK, written=ten_batches()[:2])
    return ["recover", path, *only_replica()]


def stray():
    sound()
    return PARTITION.rename(f"{PARTITION}.{'ab' * 16}-stray")


# ---- undo, and runs that were cut off


@case(code=2)
def undo_without_a_run():
    changed(torn)
    assert kafkalog("recover", DISK)[0] == 0
    return ["undo", DISK]


@case(code=10)
def undo_of_no_run():
    changed(torn)
    assert kafkalog("recover", DISK)[0] == 0
    return ["undo", DISK, "2020"]


@case(ends=0)
def undo_of_a_run_before_others():
    sound()
    for _ in range(3):
        assert kafkalog("truncate", DISK, "--to", str(18 - 4 * _), "--single-replica")[0] == 0
    first = min(path.name for path in (PARTITION / ".kafkalog").glob("2*"))
    return ["undo", DISK, first]


# ---- other commands


@case(code=3, ends=0)
def retention_by_a_time_index_that_lies():
    log_dir(DISK)
    folder = partition(DISK, written=ten_batches()[:5])
    write_segment(folder, 10, ten_batches()[5:])
    (folder / f"{0:020}.timeindex").write_bytes(struct.pack(">qi", BASE_TIME_MS - 10**9, 3))
    options = [f"--config={name}" for name in ("cleanup.policy=delete", "retention.ms=86400000")]
    return ["retain", PARTITION, *options, "--now", str(BASE_TIME_MS + 1000)]


@case(code=4)
def compaction_of_a_damaged_log():
    log_dir(DISK)
    folder = partition(DISK, written=ten_batches()[:5])
    write_segment(folder, 10, ten_batches()[5:])
    data = bytearray((folder / LOG).read_bytes())
    flipped(data)
    (folder / LOG).write_bytes(data)
    return ["compact", PARTITION, "--config", "cleanup.policy=compact", "--topic", "topic", "--force"]


@case(code=3)
def erased_keys_that_are_still_there():
    log_dir(DISK)
    folder = partition(DISK, written=ten_batches()[:5])
    write_segment(folder, 10, ten_batches()[5:])
    Path("keys").write_text("k\n")
    return [
        "compact", PARTITION, "--erase-keys", "keys", "--input", "lines", "--config", "cleanup.policy=compact",
        "--remove-other-records", "--topic", "topic", "--dry-run",
    ]  # fmt: skip


@case()
def an_append_to_a_new_partition_beside_a_damaged_checkpoint():
    sound()
    (DISK / "recovery-point-offset-checkpoint").write_bytes(b"0\n1\nnonsense\n")
    Path("more lines").write_text("a\n")
    return ["append", DISK / "topic-1", "more lines", "--input", "lines", "--single-replica", "--topic-id", SECOND]


@case(code=3)
def a_missing_index():
    from_corpus_here("crash-del-index")
    return ["ls", next(DISK.glob("*-0"))]


@case(code=1)
def a_time_in_microseconds():
    sound()
    return ["lookup-time", PARTITION, str(BASE_TIME_MS * 1000)]


@case()
def a_lock_that_is_a_link():
    sound()
    (PARTITION / ".kafkalog").mkdir()
    (PARTITION / ".kafkalog" / "lock").symlink_to("/etc/hostname")
    return ["roll", DISK, "--force"]


CORPUS = []


def from_corpus_here(name):
    return from_corpus(name)(CORPUS[0])


def test_every_rule_has_a_case_or_a_reason():
    with_commands = {rule for _, rules, _, _ in CASES.values() for rule in rules}
    assert {rule.name for rule in RULES} == with_commands | set(NOT_COMMANDS)
    assert not with_commands & set(NOT_COMMANDS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CASES)
def test_the_printed_steps_of_a_command_lead_to_a_clean_verify(corpus, tmp_path, monkeypatch, name):
    home = tmp_path / "a home" / "of logs"  # with room outside the log directory, and blanks
    home.mkdir(parents=True)
    monkeypatch.chdir(home)
    CORPUS[:] = [corpus]
    make, _, code, ends = CASES[name]
    followed(make(), code, ends)


def test_recover_says_of_replicas_what_verify_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    changed(flipped)
    for number, (isr, told) in enumerate(
        {(1,): "no other replica is in sync: ", (1, 2): "in sync elsewhere (2): "}.items()
    ):
        metadata_log(Path(f"meta {number}"), *topic(1, "topic", replicas=isr, isr=isr))
        option = ["--metadata", f"meta {number}"]
        said = [out.partition("  next: ")[2].splitlines()[0] for _, out, _ in (
            kafkalog("verify", DISK, *option), kafkalog("recover", DISK, *option))]  # fmt: skip
        assert said[0] == said[1]
        assert said[0].startswith(told)
        assert len(isr) > 1 or f"--salvage salvaged --metadata 'meta {number}'`" in said[0]


def test_undo_is_printed_ready_to_paste(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = (changed(torn), (PARTITION / LOG).read_bytes())[1]
    _, out, _ = kafkalog("recover", DISK)
    (command,) = UNDO.findall(out)
    assert (PARTITION / LOG).read_bytes() != before
    assert execute(command)[0] == 0
    assert (PARTITION / LOG).read_bytes() == before

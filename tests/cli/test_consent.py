"""Writers ask on a terminal before valid data go, and nowhere else."""

import os
import pty
import re
import shutil
import subprocess
import sys
import threading

import pytest

from tests.support.commands import kafkalog

NOW = ("--now", "1795228795800")
TIME = ("--config", "cleanup.policy=delete", "--config", "retention.ms=60000000")


class Typist:
    """A terminal on which the answers are typed; it says if more is asked than there are."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.questions = []

    def answer(self, question, poll):
        poll()
        self.questions.append(question)
        return self.answers.pop(0)


@pytest.fixture
def disk(corpus, tmp_path):
    def copy(case):
        target = shutil.copytree(corpus / case / "before", tmp_path / case)
        for path in [target, *target.rglob("*")]:
            path.chmod(0o755)
        return target

    return copy


def tree(root):
    return {
        path.relative_to(root): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.name not in (".lock", "lock")
    }


ASKING = [
    ("retention", ("retain", "ret-time-0", *TIME, *NOW), "Remove 3 segments (11 KiB) from ", "3 segments removed"),
    (
        "retention",
        ("truncate", "ret-time-0", "--to", "50", "--single-replica", *NOW),
        "Remove the records from offset 44 on (2 segments, ",
        "the log ends at 44, not 50: batch 44 to ",
    ),
    (
        "retention",
        ("delete-records", "ret-time-0", "--before", "50", "--single-replica", *NOW),
        "Delete the records before offset 50 (1 segment, ",
        "records before 50",
    ),
    ("crash-flip-mid", ("recover", "--like-broker", "crash-flip-mid-0"), "Cut ", " cut"),
]


def call(root, argv):
    return [root / word if word.endswith("-0") else word for word in argv]


@pytest.mark.parametrize(
    ("case", "argv", "asked", "words"), ASKING, ids=lambda value: value[0] if len(value) > 2 else ""
)
def test_a_writer_asked_at_a_terminal_changes_only_after_yes(disk, case, argv, asked, words):
    root = disk(case)
    before = tree(root)
    for answer in ("n\n", "\n", "what\n", ""):  # the last: end of input
        typist = Typist(answer)
        code, out, err = kafkalog(*call(root, argv), terminal=typist)
        assert (code, out) == (1, "")
        assert "nothing was changed: no consent was given" in err
        (question,) = typist.questions
        assert question.startswith(asked)
        assert question.endswith("-0? [y/N/a(ll)] ")
        assert str(root) in question
        assert tree(root) == before
    typist = Typist("never asked\n")
    code, _, err = kafkalog(*call(root, argv), "--dry-run", terminal=typist)
    assert (typist.questions, tree(root)) == ([], before)
    code, out, err = kafkalog(*call(root, argv), terminal=Typist("Y\n"))
    assert (code, "confirmed" in err) == (0, False)
    assert words in out
    assert tree(root) != before
    assert kafkalog(*call(root, argv), terminal=Typist())[0] in (0, 1)  # nothing is left to be done, nobody is asked


def test_purge_at_a_terminal_asks_before_it_removes_files(disk):
    root = disk("retention")
    assert kafkalog("retain", root / "ret-time-0", *TIME, *NOW, terminal=None)[0] == 0
    before = tree(root)
    late = ("--now", "1795328795800")
    code, out, _ = kafkalog("purge", root / "ret-time-0", *late, terminal=Typist("n\n"))
    assert (code, out, tree(root)) == (1, "", before)
    typist = Typist("yes\n")
    assert kafkalog("purge", root / "ret-time-0", *late, terminal=typist)[0] == 0
    assert typist.questions[0].startswith("Remove 11 files (11 KiB) for good from ")
    assert not list(root.rglob("*.deleted"))
    assert len(list((root / "ret-time-0" / ".kafkalog").glob("*-retain-*"))) == 1  # it is younger than 7 days


@pytest.mark.parametrize("jobs", ["1", "3"])
def test_the_answer_all_applies_to_all_partitions(disk, jobs):
    root = disk("retention")
    retain = ("retain", root, "--config", "cleanup.policy=delete", "--config", "retention.bytes=1", *NOW)
    plain = kafkalog(*retain, "--dry-run", terminal=None)[1]
    many = len(re.findall(r"segments? removed", plain))
    assert many > 1
    typist = Typist("a\n")
    code, out, _ = kafkalog(*retain, "--jobs", jobs, terminal=typist)
    assert len(typist.questions) == 1
    assert len(re.findall(r"segments? removed", out)) == many
    assert code in (0, 5)


def test_writers_that_drop_no_valid_records_do_not_ask(disk):
    """A torn tail, indexes, a roll; and where the flag is the consent."""
    torn = disk("crash-torn")
    assert kafkalog("recover", "--like-broker", torn, terminal=Typist())[0] == 0
    root = disk("retention")
    assert kafkalog("roll", root / "ret-time-0", "--force", *NOW, terminal=Typist())[0] == 0
    code, _, err = kafkalog("retain", root / "ret-time-0", *TIME, "--free-bytes", "1", *NOW, terminal=Typist())
    assert code == 0, err
    (run_id,) = (path.name for path in (torn / "crash-torn-0" / ".kafkalog").iterdir() if path.is_dir())
    assert kafkalog("undo", torn / "crash-torn-0", run_id, terminal=Typist())[0] == 0


def at_a_terminal(argv, typed):
    """(exit code, what the terminal showed) of a real process on a terminal of its own."""
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "kafkalog_cli", *map(str, argv)]
    child = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    shown, answers = b"", 0

    def read():
        nonlocal shown, answers
        try:
            while data := os.read(master, 4096):
                shown += data
                while answers < shown.count(b"a(ll)"):  # which may come in two parts
                    os.write(master, typed)
                    answers += 1
        except OSError:  # nobody has the other end any more
            return

    reader = threading.Thread(target=read)
    reader.start()
    code = child.wait(300)
    reader.join(300)
    os.close(master)
    return code, shown.decode()


@pytest.mark.exhaustive
@pytest.mark.parametrize(("typed", "code"), [(b"n\n", 1), (b"y\n", 0), (b"\x04", 1)])
def test_retain_at_a_real_terminal_obeys_the_typed_answer(disk, typed, code):
    root = disk("retention")
    found, shown = at_a_terminal(("retain", root / "ret-time-0", *TIME, *NOW), typed)
    assert found == code, shown
    assert f"Remove 3 segments (11 KiB) from {root / 'ret-time-0'}? [y/N/a(ll)] " in shown
    assert bool(list(root.rglob("*.deleted"))) is (code == 0)


def test_a_signal_during_the_question_changes_nothing(disk):
    root = disk("retention")
    before = tree(root)
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "kafkalog_cli", "retain", str(root / "ret-time-0"), *TIME, *NOW]
    child = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    shown = b""
    while b"a(ll)" not in shown:
        shown += os.read(master, 4096)
    child.terminate()
    assert child.wait(300) == 130
    os.close(master)
    assert tree(root) == before

"""What a writer tells of the clean-shutdown marker when a call fails is true, and the command that it names works."""

import errno
import re
import shlex

import pytest

from tests.crash.log_directories import MARKER, MARKER_BYTES, OWN, PARTITION, ROOT
from tests.crash.writers import APPEND, RECOVER, ROLL, SETTINGS, TRUNCATE, UNDO, kafkalog
from tests.support import watched_fs
from tests.support.memory_fs import START_NS, SURVIVALS
from tests.support.watched_fs import CHANGES, FailingFilesystem

FAULTS = ("EIO", "ENOSPC", "EROFS")
NEVER = 10**9
ATTRIBUTES = (MARKER_BYTES, 0o604, 7, 8, START_NS + 1_000_000_003, ())
CASES = [(RECOVER, "three"), (ROLL, "old"), (APPEND, "old"), (UNDO, "three")]
IDS = [f"{writer.name}-{fixture}" for writer, fixture in CASES]
COMMAND = re.compile(r"`kafkalog ([^`]*)`")
ABOUT_THE_DISK = re.compile(r"--salvage|--older-than|--freeable|^verify ")
"""Next steps for what is wrong with the disk; they do not give the marker back."""
LATER = {
    "recover": ("recover", ROOT, *SETTINGS),
    "roll": ("roll", ROOT, "--force", *SETTINGS),
    "append": APPEND.argv,
    "retain": ("retain", ROOT, *SETTINGS, "--config", "cleanup.policy=delete", "--config", "retention.ms=-1"),
    "purge": ("purge", ROOT),
}


@pytest.fixture(autouse=True)
def _read_only_faults(monkeypatch):
    names = CHANGES - {"write", "sync", "sync_directory", "truncate"} | {"open_write", "lock"}
    monkeypatch.setitem(watched_fs.FAULTS, "EROFS", (errno.EROFS, names))


def marker(disk):
    """The marker, checked; None if it is away."""
    found = disk.tree(ROOT).get(MARKER)
    assert found in (None, ATTRIBUTES), "not the same marker"
    return found


def runs(writer, fixture, faults=FAULTS, durations=(False, True)):
    """(where, disk, outcome) of a run for each call that can fail."""
    for fault in faults:
        counting = FailingFilesystem(writer.disk(fixture), fault, NEVER)
        outcome = writer.act(counting)
        assert outcome.code in writer.codes, outcome
        assert marker(counting.below) is not None, "this case is of runs that give it back"
        for for_ever in durations:
            for n in range(counting.candidates):
                disk = writer.disk(fixture)
                fs = FailingFilesystem(disk, fault, n, for_ever=for_ever)
                outcome = writer.act(fs)
                assert fs.fired
                yield f"{fault} {'for ever ' * for_ever}at {fs.failed[0][:3]}: {outcome}", disk, outcome


def check(where, disk, outcome):
    """Whether the marker is away, and was given back by the command that is named."""
    text = outcome.out + outcome.err
    if marker(disk) is not None:
        return False
    assert ".kafka_cleanshutdown" in text, f"nothing tells that it is away: {where}"
    assert "nothing was changed" not in text, where
    commands = [command for command in COMMAND.findall(text) if not ABOUT_THE_DISK.search(command)]
    assert len(commands) == 1, f"no command, or several: {where}"
    again = kafkalog(disk, *shlex.split(commands[0]), *SETTINGS[: 0 if "undo" in commands[0] else None], token="0002")
    assert again.code == 0, f"{again} after {where}"
    assert marker(disk) is not None, f"{commands} does not give it back: {again} after {where}"
    return True


@pytest.mark.full
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(("writer", "fixture"), CASES, ids=IDS)
def test_the_message_about_the_clean_shutdown_file_after_a_failed_call_agrees_with_the_disk(writer, fixture, fault):
    looked = [check(*run) for run in runs(writer, fixture, (fault,))]
    print(f"{len(looked)} faults, the marker was away after {sum(looked)}")
    assert len(looked) > 50
    assert sum(looked) > 5


def left_away(writer, fixture):
    """The disks on which all is done but for the marker."""
    for where, disk, outcome in runs(writer, fixture, ("EIO",), (False,)):
        if marker(disk) is None and "done, but .kafka_cleanshutdown" in outcome.err:
            yield where, disk


@pytest.mark.full
def test_the_next_writer_restores_the_clean_shutdown_file_after_a_failed_call():
    found = list(left_away(RECOVER, "three"))
    assert len(found) > 5
    for where, disk in found:
        for name, argv in LATER.items():
            later = disk.image(SURVIVALS[0])
            kafkalog(later, *argv, token="0002", stdin=b"a:b\n")
            assert marker(later) is not None, f"{name} after {where}"


def test_no_writer_restores_the_clean_shutdown_file_where_records_were_removed():
    for name, argv in LATER.items():
        disk = TRUNCATE.disk("old")
        assert TRUNCATE.act(disk).code == 0
        kafkalog(disk, *argv, token="0002", stdin=b"a:b\n")
        assert marker(disk) is None, name


@pytest.mark.full
def test_no_writer_restores_the_clean_shutdown_file_of_a_log_changed_since():
    _, disk = next(left_away(RECOVER, "three"))
    disk.add(f"{PARTITION}/leader-epoch-checkpoint", b"0\n1\n9 0\n")
    for name in ("purge", "retain", "roll"):
        later = disk.image(SURVIVALS[0])
        kafkalog(later, *LATER[name], token="0002")
        assert marker(later) is None, name


def test_no_writer_restores_the_clean_shutdown_file_where_files_of_the_run_were_removed():
    disk = TRUNCATE.disk("old")
    assert TRUNCATE.act(disk).code == 0
    for path in [path for path in disk.tree(OWN) if path.startswith(f"{OWN}/{TRUNCATE.run_id}/")]:
        disk.unlink(path)
    assert kafkalog(disk, *LATER["purge"], token="0002").code == 0
    assert marker(disk) is None

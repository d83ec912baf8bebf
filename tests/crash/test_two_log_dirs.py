"""One process changes partitions in two log directories of a broker, under power cuts and failing calls."""

import random
import warnings

import pytest

import kafkalog_cli as kl
from tests.crash.library_writers import config
from tests.crash.log_directories import MARKER, PARTITION, ROOT, log_directory, records_of
from tests.crash.writers import NOW_MS, RETAIN, ROLL, SETTINGS, kafkalog
from tests.support.effort import DIAL
from tests.support.product import KafkalogError
from tests.support.product_journal import as_in_a_process, library_on
from tests.support.watched_fs import FailingFilesystem, RecordingFilesystem

OTHER = "/other"
OTHER_PARTITION = f"{OTHER}/t-1"
IMAGES, FAULTS = 25, 25
TRUNCATED_TO = 9
MARKER_NAME = MARKER.rpartition("/")[2]


def command(writer):
    """A command on both: its exit code."""

    def act(fs, token="0001"):
        argv = [word for given in writer.argv for word in ((given, OTHER) if given == ROOT else (given,))]
        return kafkalog(fs, *argv, now_ms=NOW_MS, token=token).code

    return act


def truncate_both(fs, token="0001"):
    """A program that truncates one after the other, whatever comes of the first: 0, or the code of the last failure."""
    code = 0
    with warnings.catch_warnings(), library_on(fs, NOW_MS), as_in_a_process(token):
        warnings.simplefilter("ignore", kl.LogWarning)
        for path in (PARTITION, OTHER_PARTITION):
            try:
                done = kl.truncate(path, TRUNCATED_TO, single_replica=True, config=config(*SETTINGS))
                code = max(code, done.exit_code)
            except (KafkalogError, OSError) as error:
                code = max(code, getattr(error, "exit_code", 1))
    return int(code)


ACTS = {"roll": command(ROLL), "retain": command(RETAIN), "truncate": truncate_both}


def two_directories():
    """The same log in two log directories, as partitions 0 and 1 of a topic."""
    disk = log_directory("sound")
    for path, inode in list(disk.walk(ROOT)):
        if not inode.is_directory:
            data = inode.content.replace(b"\nt 0 ", b"\nt 1 ")
            disk.add(path.replace(PARTITION, OTHER_PARTITION).replace(f"{ROOT}/", f"{OTHER}/"), data, inode.attributes)
    disk.settle()
    return disk


def state(disk, root):
    """The files of a log directory but those that a run keeps, by name."""
    found = {path: inode.content for path, inode in disk.walk(root) if not inode.is_directory}
    names = {path.removeprefix(root + "/"): data for path, data in found.items() if "/.kafkalog" not in path}
    return {name: data for name, data in names.items() if name != ".lock" and not name.endswith(".tmp")}


def without_marker(found):
    return {name: data for name, data in found.items() if name != MARKER_NAME}


class Both:
    """What an act makes of both log directories, and what may be there however far it came."""

    def __init__(self, act):
        self.act = act
        disk = two_directories()
        self.before = {root: state(disk, root) for root in (ROOT, OTHER)}
        assert act(disk) == 0
        self.after = {root: state(disk, root) for root in (ROOT, OTHER)}
        assert all(self.before[root] != self.after[root] for root in self.after)

    def check(self, disk, where):
        """Each log directory by itself, then both after the same again."""
        begun = 0
        for root, before in self.before.items():
            found, after = state(disk, root), self.after[root]
            is_half = without_marker(found) not in (without_marker(before), without_marker(after))
            begun += is_half
            assert not is_half or MARKER_NAME not in found or self.act is ACTS["retain"], f"{root}, {where}"
            kept, all_of_them = records(found), records(before)
            assert len(kept) >= len(records(after)), f"more went than was to go: {root}, {where}"
            assert kept in (all_of_them[: len(kept)], all_of_them[len(all_of_them) - len(kept) :]), f"{root}, {where}"
        assert begun < 2 or self.act is not truncate_both, f"both are half changed: {where}"
        code = self.act(disk, "0002")
        assert code in (0, 1), f"{code} after {where}"
        for root, after in self.after.items():
            assert without_marker(state(disk, root)) == without_marker(after), f"{root} after the same again: {where}"


def records(found):
    return [one for name, data in sorted(found.items()) if name.endswith(".log") for one in records_of(data)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ACTS)
def test_a_power_cut_after_any_call_in_two_log_directories_leaves_each_before_or_after(name, evidence):
    both, disk, images = Both(ACTS[name]), two_directories(), []
    both.act(
        RecordingFilesystem(
            disk, lambda call: images.extend((f"{kind} {call[:3]}", one) for kind, one in disk.images())
        )
    )
    chance = random.Random(f"{name} {DIAL.scale}")
    chosen = chance.sample(images, min(IMAGES * DIAL.scale, len(images)))
    for where, image in chosen:
        both.check(image, where)
    evidence("R44", len(chosen), 2 * len(ACTS))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ACTS)
def test_a_failed_call_in_one_log_directory_does_not_stop_work_in_the_other(name, evidence):
    """What fails in one log directory is no reason to leave the other as it was."""
    both, chance, tried = Both(ACTS[name]), random.Random(f"{name} {DIAL.scale}"), 0
    for fault in ("EIO", "ENOSPC"):
        both.act(fs := FailingFilesystem(two_directories(), fault, 10**9))
        for n in chance.sample(range(fs.candidates), min(FAULTS * DIAL.scale // 2, fs.candidates)):
            disk = two_directories()
            code = both.act(fs := FailingFilesystem(disk, fault, n))
            both.check(disk, f"{fault} at {fs.failed[0][:3]}, exit code {code}")
            tried += 1
    evidence("R44", tried, 2 * len(ACTS))

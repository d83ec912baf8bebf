"""What an import tells when a call fails is true of the disk, and the same command goes on."""

import random

import pyarrow as pa
import pytest
from pyarrow import feather

from tests.crash.log_directories import MARKER, ROOT, log_directory
from tests.crash.messages import READ_ONLY, WRITE_FAULTS
from tests.crash.writer_matrix import copy, own_tree
from tests.crash.writers import NEW_ID, NOW_MS, kafkalog
from tests.support import watched_fs
from tests.support.effort import DIAL
from tests.support.naive_reader import read_batches, read_records
from tests.support.product import is_staged
from tests.support.product_journal import import_on
from tests.support.watched_fs import FailingFilesystem

LINES = b"0\n3\norders 0 90\nother 3 44\nt 0 0\n"
WAYS = {"plain": (), "over an empty one": ("--replace-empty",), "proved": ("--prove",)}
A_CASE = 40
NEVER = 10**9
RECORD = f"{ROOT}/.kafkalog-import"
DONE = "nothing has to be done"
GOES_ON = "repeat the command"


@pytest.fixture(autouse=True)
def _read_only(monkeypatch):
    monkeypatch.setitem(watched_fs.FAULTS, "EROFS", READ_ONLY)


@pytest.fixture
def importing(tmp_path, monkeypatch):
    """A function that imports into a disk: (disk, way) -> Outcome. The tasks run here, one after the other.

    The input is on the real disk, and tells its partitions: Arrow would read files of sorted rows past the disk in memory.
    """
    for partition in range(2):
        facts = {"kafkalog.topic": "orders", "kafkalog.partition": str(partition)}
        table = pa.table({"value": [b"v%d" % at for at in range(4 * partition, 4 * partition + 4)]})
        feather.write_feather(table.replace_schema_metadata(facts), tmp_path / f"{partition}.arrow")

    def act(fs, way, token="0001"):
        import_on(monkeypatch, fs)
        argv = ("import", str(tmp_path), "--log-dir", ROOT, "--topic-id", f"orders={NEW_ID}", "--single-replica")
        return kafkalog(fs, *argv, *WAYS[way], now_ms=NOW_MS, token=token)

    return act


def disk_for(way):
    disk = log_directory("sound")
    disk.add(f"{ROOT}/log-start-offset-checkpoint", LINES)
    if way == "over an empty one":
        for name in ("log", "index", "timeindex"):
            disk.add(f"{ROOT}/orders-1/{0:020d}.{name}", b"")
    disk.settle()
    return disk


def seen(disk):
    """All files but those that an import builds, without times."""
    tree = {path: facts[:4] for path, facts in own_tree(disk).items()}
    return {path: facts for path, facts in tree.items() if not is_staged(path.split("/")[2]) and path != RECORD}


def staged(disk):
    return {path.split("/")[2] for path in own_tree(disk) if is_staged(path.split("/")[2])}


def values(disk):
    logs = sorted((path, facts[0]) for path, facts in seen(disk).items() if "orders" in path and path.endswith(".log"))
    return [record.value for _, data in logs for one in read_batches(data) for record in read_records(data, one)]


def candidates(importing, way):
    found = []
    for fault in WRITE_FAULTS:
        fs = FailingFilesystem(disk_for(way), fault, NEVER)
        assert importing(fs, way).code == 0
        found += [(fault, for_ever, n) for for_ever in (False, True) for n in range(fs.candidates)]
    return found


@pytest.mark.exhaustive
@pytest.mark.parametrize("way", WAYS)
def test_the_message_of_an_import_whose_call_failed_agrees_with_the_disk(importing, way, evidence):
    whole = disk_for(way)
    assert importing(whole, way).code == 0
    assert sorted(values(whole)) == [b"v%d" % at for at in range(8)]
    found = candidates(importing, way)
    tried = random.Random(f"{way} {DIAL.scale}").sample(found, min(A_CASE * DIAL.scale, len(found)))
    for fault, for_ever, n in tried:
        disk = disk_for(way)
        before = seen(disk)
        outcome = importing(fs := FailingFilesystem(disk, fault, n, for_ever=for_ever), way)
        assert fs.fired
        where = f"{fault} {'for ever ' * for_ever}at {fs.failed[0][:3]}: {outcome}"
        check(importing, way, disk, before, whole, outcome, where)
    evidence("R45", len(tried), len(WAYS))


def check(importing, way, disk, before, whole, outcome, where):
    there, wanted = seen(disk), seen(whole)
    if outcome.code == 0:
        assert there == wanted, f"told of success: {where}"
        return
    if "nothing was changed" in outcome.err:
        assert there == before, f"{differing(there, before)} changed: {where}"
        assert not staged(disk), f"{staged(disk)} is left: {where}"
    if DONE in outcome.err:
        assert there == wanted, where
        assert not staged(disk), where
        return
    if GOES_ON not in outcome.err:
        assert not {path for path in there.keys() ^ before.keys() if "orders-" in path}, f"something is seen: {where}"
    assert there.get(MARKER) == before.get(MARKER), where
    again = copy(disk)
    outcome = importing(again, way, token="0002")
    assert outcome.code == 0, f"{outcome} after {where}"
    assert seen(again) == wanted, f"{differing(seen(again), wanted)}: {outcome} after {where}"
    assert not staged(again), f"{staged(again)}: {outcome} after {where}"


def differing(one, other):
    return sorted(path for path in one.keys() | other.keys() if one.get(path) != other.get(path))

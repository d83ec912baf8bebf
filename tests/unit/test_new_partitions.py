"""New partitions under power cuts after each call and calls that fail: all of a run is seen, or nothing."""

import json

import pytest

from kafkalog_cli.change.new_partition import _files, _is_in_use, is_unfinished, make_partition
from kafkalog_cli.change.new_partitions import NewPartitions, StagedPartition, is_staged, record_of, staged_name
from kafkalog_cli.disk.names import DirectoryKind, classify_directory
from kafkalog_cli.errors import ExitCode, HalfPublished, KafkalogError, Locked, Refused, UnsupportedFormat
from tests.support.memory_fs import MemoryFilesystem
from tests.support.watched_fs import RecordingFilesystem, every_fault

ROOT, NOW_MS = "/data", 1_700_000_000_000
ID = "AAAAAAAAAAAAAAAAAAAAAQ"
NAMES = ("orders-0", "orders-1", "a.b-7")
A_BROKERS = f"gone-0.{'ab' * 16}-delete"
LINES = b"0\n3\norders 0 90\nother 0 5\na.b 7 1\n"


def empty_disk(*, with_empty=False):
    """A log directory with a partition that a broker removes, and lines of partitions that are gone."""
    fs = MemoryFilesystem()
    fs.add(f"{ROOT}/meta.properties", b"version=1\n")
    fs.add(f"{ROOT}/{A_BROKERS}/{0:020d}.log", b"theirs")
    fs.add(f"{ROOT}/log-start-offset-checkpoint", LINES)
    if with_empty:
        make_partition(fs, f"{ROOT}/orders-1", ID, NOW_MS)
        fs.settle()
    return fs


def run(fs, number=1, names=NAMES, attempts=2):
    """One run as an import makes it; each partition is built twice, as by a task that was lost."""
    name = f"run-{number}"
    with NewPartitions(fs, ROOT) as new:
        completed = new.complete()
        new.sweep()
        if completed.what.get("number") == number:
            return completed
        made = []
        try:
            for one in names:
                topic, _, partition = one.rpartition("-")
                for attempt in range(attempts):
                    staged = staged_name(topic, int(partition), name, str(attempt))
                    make_partition(fs, f"{ROOT}/{staged}", ID, NOW_MS, 40 + number)
                made.append(StagedPartition(topic, int(partition), staged))
            return new.publish(name, made, {"number": number}, replaces_empty=True)
        finally:
            new.sweep(name)


def seen(fs):
    """The partitions that a broker would load, with what they hold, but for one that a test began with."""
    found = {}
    for entry in fs.list_directory(ROOT):
        name = entry.path.rpartition("/")[2]
        if entry.is_directory and classify_directory(name).kind is DirectoryKind.PARTITION:
            files = {one.path.rpartition("/")[2] for one in fs.list_directory(entry.path)}
            found[name] = "new" if f"{41:020d}.log" in files and len(files) == 5 else "old"
    return found


def left(fs):
    return [path for path, _ in fs.walk(ROOT) if is_staged(path.rpartition("/")[2]) or "kafkalog-import" in path]


ALL = dict.fromkeys(NAMES, "new")


@pytest.mark.full
@pytest.mark.parametrize("with_empty", [False, True])
def test_a_power_cut_leaves_all_partitions_of_an_import_visible_or_none(with_empty):
    """Before the commit nothing is seen; after it the next run completes it, and nothing is left."""
    disk = empty_disk(with_empty=with_empty)
    before = seen(disk)
    images = []
    run(RecordingFilesystem(disk, lambda _: images.extend(disk.images())))
    assert seen(disk) == ALL
    assert left(disk) == []
    committed = half = 0
    for name, image in images:
        found, is_committed = seen(image), image.status(f"{ROOT}/.kafkalog-import") is not None
        half += found not in (before, ALL)
        committed += is_committed
        assert found in (before, ALL) or is_committed, (name, found)
        assert image.status(f"{ROOT}/{A_BROKERS}/{0:020d}.log") is not None
        with NewPartitions(image, ROOT) as new:
            new.complete()
            new.sweep()
        assert seen(image) == (ALL if is_committed else found), name
        assert left(image) == [], name
        if seen(image) != ALL:
            run(image)
            assert seen(image) == ALL, name
        assert image.status(f"{ROOT}/{A_BROKERS}/{0:020d}.log") is not None
    assert len(images) > 300
    assert committed > 20
    assert half > 5


def test_the_same_import_run_again_continues():
    disk, images = empty_disk(), []
    run(RecordingFilesystem(disk, lambda _: images.extend(disk.images())))
    half = [image for _, image in images if image.status(f"{ROOT}/.kafkalog-import") is not None]
    completed = run(half[0])
    assert (completed.placed, completed.lost) == (NAMES, ())
    assert seen(half[0]) == ALL


@pytest.mark.full
def test_a_failed_call_leaves_all_partitions_of_an_import_visible_or_none():
    """Not committed: nothing is seen or left. Committed: it is said that the same command goes on."""
    kinds = set()
    for fs in every_fault(empty_disk):
        error = None
        try:
            run(fs)
        except (KafkalogError, OSError) as raised:
            error = raised
        disk = fs.below
        is_committed = disk.status(f"{ROOT}/.kafkalog-import") is not None
        if isinstance(error, HalfPublished):
            kinds.add("half")
        elif error is not None and not is_committed:
            kinds.add(type(error).__name__)
            assert seen(disk) in ({}, ALL)
        with NewPartitions(disk, ROOT) as new:
            new.complete()
            new.sweep()
        assert seen(disk) in ({}, ALL)
        assert not is_committed or seen(disk) == ALL
        assert left(disk) == []
        assert disk.status(f"{ROOT}/{A_BROKERS}/{0:020d}.log") is not None
    assert {"half", "NotChanged", "NotImported", "NoSpace"} <= kinds


def test_publishing_removes_checkpoint_lines_of_earlier_partitions():
    """A broker would start the new log at the old one's log start offset."""
    disk = empty_disk()
    run(disk)
    assert disk.tree(ROOT)[f"{ROOT}/log-start-offset-checkpoint"][0] == b"0\n1\nother 0 5\n"


def committed_image():
    """A run that was cut off after its commit, with the first partition in its place."""
    disk, images = empty_disk(), []
    run(RecordingFilesystem(disk, lambda _: images.extend(disk.images())))
    return next(image for _, image in images if len(seen(image)) == 1)


def test_a_broker_in_between_removes_what_was_to_come():
    image = committed_image()
    (placed,) = seen(image)
    for entry in image.list_directory(ROOT):
        if is_staged(entry.path.rpartition("/")[2]):
            for file in image.list_directory(entry.path):
                image.unlink(file.path)
            image.remove_directory(entry.path)
    completed = run(image)
    assert completed.placed == (placed,)
    assert set(completed.lost) == set(NAMES) - {placed}
    assert left(image) == []


def test_a_record_may_have_set_every_partition_aside_and_an_inode_has_64_bits():
    image = committed_image()
    path = f"{ROOT}/.kafkalog-import"
    document = json.loads(image.tree(ROOT)[path][0])
    most = 2**64 - 1
    document["state"] = {"inodes": dict.fromkeys(NAMES, most), "aside": dict.fromkeys(NAMES, 0)}
    image.add(path, json.dumps(document).encode())
    assert record_of(image, ROOT).state == document["state"]
    for part, wrong in (("inodes", {NAMES[0]: most + 1}), ("aside", {NAMES[0]: -1}), ("aside", {"other-0": 1})):
        state = {**document["state"], part: {**document["state"][part], **wrong}}
        image.add(path, json.dumps({**document, "state": state}).encode())
        with pytest.raises(UnsupportedFormat):
            record_of(image, ROOT)


def test_a_partition_in_the_place_of_a_new_one_is_refused():
    image = committed_image()
    (name,) = set(NAMES) - set(seen(image)) - {"a.b-7"} or {"a.b-7"}
    make_partition(image, f"{ROOT}/{name}", ID, NOW_MS)
    with pytest.raises(
        Refused, match=rf"it already exists, and a committed import has .*: `mv -nT {ROOT}/{name} /{name}` makes room"
    ):
        run(image)
    image.rename(f"{ROOT}/{name}", "/elsewhere")
    run(image)
    assert seen(image) == ALL


def test_nothing_takes_the_place_of_records():
    disk = empty_disk(with_empty=True)
    with disk.open_write(f"{ROOT}/orders-1/{0:020d}.log") as file:
        file.write(0, b"x")
    with pytest.raises(Refused, match="orders-1: refused: it already exists"):
        run(disk)
    assert seen(disk) == {"orders-1": "old"}
    assert left(disk) == []


def test_publishing_refuses_where_a_staged_partition_is_missing():
    disk = empty_disk()
    with (
        NewPartitions(disk, ROOT) as new,
        pytest.raises(Refused, match="it is missing: a broker was started in the meantime"),
    ):
        new.publish("run-1", [StagedPartition("t", 0, staged_name("t", 0, "run-1", "0"))], {})


def test_a_second_import_into_the_directory_is_refused():
    disk = empty_disk()
    with (
        NewPartitions(disk, ROOT),
        pytest.raises(Locked, match="another run of kafkalog holds the lock") as caught,
        NewPartitions(disk, ROOT),
    ):
        pass
    assert caught.value.exit_code is ExitCode.LOCKED
    assert disk.locks_held() == 0


def test_names_of_staged_partitions_are_recognised():
    name = staged_name("orders", 3, "run-1", "7")
    found = classify_directory(name)
    assert (found.kind, found.topic, found.partition) == (DirectoryKind.DELETE, "orders", 3)
    assert len(found.unique_id) == 32
    assert is_staged(name)
    assert is_staged(name, "run-1")
    assert not is_staged(name, "run-2")
    assert not is_staged(A_BROKERS)
    assert not is_staged(f"orders-3.{'0' * 32}-delete")
    assert not is_staged(name.replace("-delete", "-stray"))
    assert not is_staged("orders-3")
    assert is_staged(staged_name("t" * 249, 123, "run-1", "0"), "run-1")
    assert len(staged_name("t" * 249, 123, "run-1", "0")) == 255


def test_the_record_is_small_json():
    image = committed_image()
    record = json.loads(image.tree(ROOT)[f"{ROOT}/.kafkalog-import"][0])
    assert record["what"] == {"number": 1}
    assert [one["path"] for one in record["coming"]] == list(NAMES)


def test_a_partition_without_its_log_alone_is_unfinished():
    """Whichever of the other files were made, also all of them."""
    _, *others = sorted(_files(0), key=lambda name: not name.endswith(".log"))
    for count in range(len(others) + 1):
        fs = MemoryFilesystem()
        fs.add("/t-0/partition.metadata", f"version: 0\ntopic_id: {ID}\n".encode())
        for name in others[:count]:
            fs.add(f"/t-0/{name}", b"")
        assert is_unfinished(fs, "/t-0")
    for name, data in ((others[0], b"x"), (f"{0:020}.log", b""), ("other", b"")):
        fs = MemoryFilesystem()
        fs.add(f"/t-0/{name}", data)
        assert not is_unfinished(fs, "/t-0")


@pytest.mark.parametrize(
    ("files", "in_use"),
    [
        ([], False),
        ([".kafkalog/lock"], False),
        ([".kafkalog/lock", ".kafkalog/partition.metadata"], False),
        ([".kafkalog/lock", ".kafkalog/run/manifest.json"], True),
        (["other/file"], True),
        ([".kafkalog/lock", "other/file"], True),
        ([f"{0:020}.index"], False),
        ([f"{0:020}.log"], True),
    ],
)
def test_only_what_kafkalog_made_is_not_in_use(files, in_use):
    fs = MemoryFilesystem()
    fs.add("/t-0/leader-epoch-checkpoint", b"")
    for name in files:
        fs.add(f"/t-0/{name}", b"x")
    assert _is_in_use(fs, "/t-0") is in_use

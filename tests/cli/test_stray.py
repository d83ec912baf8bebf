"""A missing partition.metadata is written from the metadata log, and a `-stray` directory comes back by its path."""

import json
import shlex
import shutil

import pytest

from tests.support.commands import kafkalog
from tests.support.logs import R, batch_v2, write_segment
from tests.support.metadata_logs import batches, partition, topic_id, value

STRAY = "t-0.0123456789abcdef0123456789abcdef-stray"
ID = topic_id(1)


@pytest.fixture
def disk(tmp_path):
    """A log directory of broker 1 with t-0, whose topic the metadata log in `meta` has."""
    data = tmp_path / "data"
    (data / "t-0").mkdir(parents=True)
    records = [R(offset, 1_795_000_000_000 + offset, None, b"v") for offset in range(5)]
    write_segment(data / "t-0", 0, [(batch_v2(records), 4, records[-1].timestamp)])
    (data / "t-0" / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (data / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=a2Fma2Fsb2ctdGVzdHMtMQ\n")
    (data / ".kafka_cleanshutdown").write_bytes(b'{"version":0,"brokerEpoch":7}')
    log = tmp_path / "meta" / "__cluster_metadata-0"
    log.mkdir(parents=True)
    topics = [value("TopicRecord", name="t", topicId=ID), partition(ID)]
    elsewhere = [value("TopicRecord", name="other", topicId=topic_id(2)), partition(topic_id(2), replicas=(2,))]
    (log / "00000000000000000000.log").write_bytes(batches([topics, elsewhere])[0])
    return data


def metadata(disk):
    return ("--metadata", disk.parent / "meta")


def identify(folder, topic=ID):
    (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic}")


@pytest.mark.parametrize("damage", [None, b"", b"version: 0\n", b"nonsense"])
def test_partition_metadata_is_written_as_verify_says(disk, damage):
    file = disk / "t-0" / "partition.metadata"
    if damage is not None:
        file.write_bytes(damage)
    else:
        found = [
            json.loads(line) for line in kafkalog("verify", disk, *metadata(disk), "--format", "json")[1].splitlines()
        ]
        [step] = [one["next_step"] for one in found if one.get("kind") == "partition-metadata-missing"]
        assert shlex.split(step.split("`")[1]) == [
            "kafkalog",
            "recover",
            f"{disk}/t-0",
            "--metadata",
            str(metadata(disk)[1]),
        ]
    code, out, _ = kafkalog("recover", disk, *metadata(disk))
    assert code == 0
    assert file.read_text() == f"version: 0\ntopic_id: {ID}"
    assert (disk / ".kafka_cleanshutdown").read_bytes() == b'{"version":0,"brokerEpoch":7}'
    assert kafkalog("verify", disk, *metadata(disk))[0] == 0
    undo = shlex.split(out.partition("undo: kafkalog ")[2].splitlines()[0])
    assert kafkalog(*undo)[0] == 0
    assert (file.read_bytes() if file.exists() else None) == damage


def test_without_the_topic_in_the_metadata_log_nothing_is_written(disk):
    for name in ("gone-0", "other-0", "t-7"):
        shutil.copytree(disk / "t-0", disk / name)
        kafkalog("recover", disk / name, *metadata(disk))
        assert not (disk / name / "partition.metadata").exists()
    kafkalog("recover", disk / "t-0")
    assert not (disk / "t-0" / "partition.metadata").exists()


@pytest.mark.parametrize("has_id", [True, False])
def test_a_stray_directory_comes_back(disk, has_id):
    stray = disk / STRAY
    (disk / "t-0").rename(stray)
    if has_id:
        identify(stray)
    _, out, _ = kafkalog("verify", stray, *metadata(disk))
    command = shlex.split(out.split("`")[1])
    dry = kafkalog(*command[1:], "--dry-run")
    assert (dry[0] in (0, 3), stray.exists(), f"would be renamed to {disk}/t-0" in dry[2]) == (True, True, True)
    code, _, err = kafkalog(*command[1:])
    assert code == 0, err
    assert (disk / "t-0" / "partition.metadata").read_text() == f"version: 0\ntopic_id: {ID}"
    assert not stray.exists()
    assert kafkalog("verify", disk, *metadata(disk))[0] == 0
    _, source, target = shlex.split(err.partition("undo: ")[2])
    assert (source, target) == (f"{disk}/t-0", str(stray))


def test_a_stray_directory_that_is_given_by_its_name_alone_stays_in_its_log_directory(disk, monkeypatch):
    (disk / "t-0").rename(disk / STRAY)
    monkeypatch.chdir(disk)
    assert kafkalog("recover", STRAY, *metadata(disk))[0] == 0
    assert (disk / "t-0" / "partition.metadata").read_text() == f"version: 0\ntopic_id: {ID}"


LONG = "l" * 249
CUT = LONG[:214] + STRAY.removeprefix("t")


@pytest.mark.parametrize(
    ("topics", "own", "back"),
    [
        ([LONG], None, LONG),
        ([LONG], 1, LONG),
        ([LONG, LONG[:-1]], 2, LONG[:-1]),
        ([LONG, LONG[:-1]], None, f"it may be of {LONG[:-1]} and {LONG}"),
        ([LONG], 9, "it was deleted"),
        (["other"], None, "it was deleted"),
    ],
)
def test_the_topic_id_says_which_topic_the_cut_name_of_a_stray_directory_is_of(disk, topics, own, back):
    """A -stray name has at most 255 characters (UnifiedLog.logDirNameWithSuffixCappedLength), a topic up to 249."""
    stray = disk / CUT
    (disk / "t-0").rename(stray)
    if own is not None:
        identify(stray, topic_id(own))
    records = [
        [value("TopicRecord", name=name, topicId=topic_id(number)), partition(topic_id(number))]
        for number, name in enumerate(topics, 1)
    ]
    (disk.parent / "meta" / "__cluster_metadata-0" / f"{0:020}.log").write_bytes(batches(records)[0])
    _, out, _ = kafkalog("verify", "--verbose", stray, *metadata(disk))
    code, _, err = kafkalog("recover", stray, *metadata(disk))
    if back in topics:
        assert ("restores it" in out, code) == (True, 0)
        found = topic_id(topics.index(back) + 1)
        assert (disk / f"{back}-0" / "partition.metadata").read_text() == f"version: 0\ntopic_id: {found}"
    else:
        assert (back in out, code, back in err, stray.exists()) == (True, 14, True, True)


def test_it_comes_back_only_by_its_own_path(disk):
    shutil.copytree(disk / "t-0", disk / "u-0")
    (disk / "t-0").rename(disk / STRAY)
    _, _, err = kafkalog("recover", disk, *metadata(disk))
    assert (disk / STRAY).exists()
    assert f"kafkalog recover {disk}/{STRAY}" in err


@pytest.mark.parametrize(
    ("name", "own", "reason"),
    [
        ("t-0", None, "exists"),
        ("t-0", topic_id(9), "created again"),
        ("gone-0", None, "no topic gone"),
        ("t-3", None, "no partition 3"),
        ("other-0", None, "none of the replicas"),
    ],
)
def test_why_a_stray_directory_stays(disk, name, own, reason):
    stray = disk / f"{name}{STRAY.removeprefix('t-0')}"
    shutil.copytree(disk / "t-0", stray)
    if own is not None:
        identify(stray, own)
        shutil.rmtree(disk / "t-0")
    before = sorted(path.name for path in stray.iterdir())
    code, _, err = kafkalog("recover", stray, *metadata(disk))
    assert (code, reason in err) == (14, True), err
    assert sorted(path.name for path in stray.iterdir()) == before


def test_without_a_metadata_log_the_refusal_names_the_option(disk):
    (disk / "t-0").rename(disk / STRAY)
    code, _, err = kafkalog("recover", disk / STRAY)
    assert (code, f"kafkalog recover {disk}/{STRAY} --metadata DIR" in err) == (14, True)


@pytest.mark.parametrize("with_metadata", [False, True])
def test_damage_in_a_stray_directory_is_repaired_where_it_is(disk, with_metadata):
    """`verify` names `recover`, which refused the directory, as it could not have its name back."""
    stray = disk / f"gone-0{STRAY.removeprefix('t-0')}"
    (disk / "t-0").rename(stray)
    with (stray / f"{0:020}.log").open("ab") as log:
        log.write(b"torn")
    options = metadata(disk) if with_metadata else ()
    assert kafkalog("verify", stray, *options)[0] == 3
    dry = kafkalog("recover", stray, *options, "--dry-run")
    assert (dry[0], "keeps its name" in dry[2]) == (3, True), dry
    code, _, err = kafkalog("recover", stray, *options)
    assert (code, "keeps its name" in err, stray.exists()) == (0, True, True)
    assert kafkalog("verify", stray, *options)[0] == 0

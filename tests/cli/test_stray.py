"""Which topic a `-stray` directory is of whose name is cut (what recover prints of others: partitions.md)."""

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
    log = tmp_path / "meta" / "__cluster_metadata-0"
    log.mkdir(parents=True)
    topics = [value("TopicRecord", name="t", topicId=ID), partition(ID)]
    (log / "00000000000000000000.log").write_bytes(batches([topics])[0])
    return data


def metadata(disk):
    return ("--metadata", disk.parent / "meta")


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
        (stray / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id(own)}")
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

"""Tables of what log directories hold besides records: coordinators' state, cluster metadata, batches, segments."""

import pytest

from kafkalog_cli.errors import DamagedLog
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.ops.cluster.tables.batches import batches, segments
from tests.support.logs import BASE_TIME_MS, TRANSACTIONAL, R, batch_v2, end_marker, message_set
from tests.support.product import RealFilesystem

FS = RealFilesystem()


def fail(damage):
    raise damage


def log(folder, data, topic="__consumer_offsets", partition=3):
    (folder / f"{topic}-{partition}").mkdir(parents=True)
    (folder / f"{topic}-{partition}" / f"{0:020d}.log").write_bytes(data)
    return open_partition(FS, str(folder / f"{topic}-{partition}"))


def test_the_batches_table_has_good_and_damaged_batches(tmp_path):
    parts = [
        message_set([R(0, 5, b"k", b"v"), R(1, 6, b"k", b"v")], 1, 1),
        batch_v2([R(2, 7, b"k", b"v" * 40)]),
        end_marker(3, BASE_TIME_MS, (7, 2), 1),
        batch_v2([R(4, 7, b"k", b"v"), R(5, 7, b"k", b"v")], 4, producer=(7, 2, 11), bits=TRANSACTIONAL, epoch=5),
        batch_v2([R(6, 7, b"k", b"v")]),
    ]
    parts[1] = parts[1][:-3] + b"xyz"
    found = list(batches(FS, log(tmp_path, b"".join(parts), "orders", 2), fail))
    names = (
        "position",
        "base_offset",
        "last_offset",
        "records",
        "magic",
        "codec",
        "producer_id",
        "control",
        "crc_valid",
    )
    sizes = [sum(map(len, parts[:at])) for at in range(5)]
    assert [tuple(getattr(one, name) for name in names) for one in found] == [
        (sizes[0], None, 1, None, 1, "gzip", None, False, True),
        (sizes[1], 2, 2, 1, 2, "none", None, False, False),
        (sizes[2], 3, 3, 1, 2, "none", 7, True, True),
        (sizes[3], 4, 5, 2, 2, "zstd", 7, False, True),
        (sizes[4], 6, 6, 1, 2, "none", None, False, True),
    ]
    assert {(one.topic, one.partition, one.log_dir) for one in found} == {("orders", 2, str(tmp_path))}
    assert (found[2].max_timestamp, found[3].base_sequence, found[3].leader_epoch) == (BASE_TIME_MS, 11, 5)
    torn = log(tmp_path / "torn", parts[2] + b"\0" * 40 + parts[4] + parts[4][:20], "orders", 2)
    with pytest.raises(DamagedLog, match=f"at byte {len(parts[2])}: "):
        list(batches(FS, torn, fail))
    told = []
    assert [one.base_offset for one in batches(FS, torn, told.append)] == [3, 6]
    assert [one.details["position"] for one in told] == [len(parts[2]), len(parts[2]) + 40 + len(parts[4])]


def test_the_segments_table_has_sizes_and_counts_of_each_segment(corpus, tmp_path):
    partition = log(
        tmp_path, batch_v2([R(0, BASE_TIME_MS, b"k", b"v"), R(4, BASE_TIME_MS + 9, b"k", b"v")]), "orders", 2
    )
    (one,) = segments(FS, partition)
    assert (one.first_offset, one.next_offset, one.first_timestamp, one.max_timestamp) == (
        0, 5, BASE_TIME_MS, BASE_TIME_MS + 9,
    )  # fmt: skip
    assert (one.offset_index_bytes, one.is_active, one.format, one.log_dir) == (None, True, "v2", str(tmp_path))
    for folder in sorted((corpus / "internal" / "data").glob("in-*-[0-9]")):
        for row in segments(FS, open_partition(FS, str(folder))):
            assert row.size_bytes == (folder / row.segment).stat().st_size
            index = folder / row.segment.replace(".log", ".index")
            assert row.offset_index_bytes == index.stat().st_size
            assert row.problems == 0

"""A partition that an import builds: all of it is on the disk when it is said to be built, whatever a power cut takes."""

import pytest

from tests.support.memory_fs import SURVIVALS, MemoryFilesystem
from tests.support.watched_fs import every_fault

pa = pytest.importorskip("pyarrow")

from kafkalog_cli.change.new_partitions import staged_name  # noqa: E402
from kafkalog_cli.change.removal import try_to_remove_directory  # noqa: E402
from kafkalog_cli.log.settings.source import SettingsSource  # noqa: E402
from kafkalog_cli.ops.change.append.arrow import ArrowReader  # noqa: E402
from kafkalog_cli.ops.change.append.batching import BatchStyle  # noqa: E402
from kafkalog_cli.ops.change.plans import used_settings  # noqa: E402
from kafkalog_cli.ops.move.export_request import FileFormat  # noqa: E402
from kafkalog_cli.ops.move.importing.building import TopicStyle, build  # noqa: E402
from kafkalog_cli.ops.move.importing.planning import prove  # noqa: E402
from kafkalog_cli.ops.move.importing.sources import InputFile  # noqa: E402
from tests.support.product import BadInput, KafkalogError  # noqa: E402

ROOT, NOW_MS = "/data", 1_700_000_000_000
PATH = f"{ROOT}/{staged_name('t', 0, 'run', '0')}"
ROWS = pa.RecordBatch.from_pylist(
    [{"key": b"k", "value": b"v" * at, "timestamp": at, "offset": 100 + 3 * at} for at in range(60)]
)


def empty_disk():
    fs = MemoryFilesystem()
    fs.add(f"{ROOT}/meta.properties", b"version=1\n")
    return fs


def built(fs, **config):
    source = SettingsSource(fs, {"segment.bytes": "900", **config}, None, log_dirs=[ROOT])
    batches = BatchStyle(batch_bytes=200, keeps_offsets=True)
    used = used_settings(source, ROOT, "t")
    style = TopicStyle(source.topic_config(ROOT, "t"), used, batches, NOW_MS)
    return build(fs, PATH, records([ROWS.slice(0, 20), ROWS.slice(20)]), style, 100)


def records(parts):
    return ArrowReader(NOW_MS, with_origin=True).records(parts)


def test_a_built_partition_survives_a_power_cut_whole():
    disk = empty_disk()
    found = built(disk)
    assert (found.first_offset, found.end_offset, found.records) == (100, 278, 60)
    before = disk.tree(PATH)
    assert found.segments == sum(path.endswith(".log") for path in before) > 3
    contents = {path: facts[0] for path, facts in before.items()}
    for survival in SURVIVALS:
        image = disk.image(survival)
        assert {path: facts[0] for path, facts in image.tree(PATH).items()} == contents, survival
        proof = prove(image, PATH, "t-0", records([ROWS]), with_offsets=True)
        assert proof.records == 60
    mode = disk.attributes(ROOT).mode
    assert {facts[1] for path, facts in before.items() if path != PATH} == {mode & 0o666}


@pytest.mark.full
def test_a_failed_call_while_a_partition_is_built_leaves_nothing():
    """It is said, as an error of ours or of the system; what was made can be removed, all of it."""
    kinds = set()
    for fs in every_fault(empty_disk):
        error = None
        try:
            built(fs)
        except (KafkalogError, OSError) as raised:
            error = raised
        kinds.add(type(error).__name__)
        disk = fs.below
        if error is None:
            assert prove(disk, PATH, "t-0", records([ROWS]), with_offsets=True).records == 60
        try_to_remove_directory(disk, PATH)
        assert [entry.path for entry in disk.list_directory(ROOT)] == [f"{ROOT}/meta.properties"]
    assert {"NotChanged", "NoSpace", "OSError", "SyncFailed"} <= kinds


@pytest.mark.parametrize(
    "line", [b"nonsense", b"[]", b'{"type":"click","user":5}', b'{"valeu":"a"}', b'{"value":1,"value":2}']
)
def test_an_error_of_an_import_line_names_no_option_of_append(tmp_path, line):
    """`--input lines` is an option of append and compact: import has none."""
    (tmp_path / "in.ndjson").write_bytes(b'{"value":"a","topic":"t","partition":0}\n' + line + b"\n")
    with pytest.raises(BadInput, match="line 2: ") as told:
        list(InputFile(str(tmp_path / "in.ndjson"), FileFormat.JSON, 0).records(NOW_MS))
    assert "--input" not in str(told.value)

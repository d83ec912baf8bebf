"""Cases for append: a log, settings, records and how they come; what the real leader's log and ours make of them."""

import shutil
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import NamedTuple

from kafkalog_cli.broker.open_log import OpenLog
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.change.manifest import RunInfo
from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.errors import BadInput
from kafkalog_cli.format.batch import Batch
from kafkalog_cli.format.batch_encoder import encode_end_marker
from kafkalog_cli.format.records import Header
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.ops.append.append import AppendRequest, apply_append, next_sequence, plan_append
from kafkalog_cli.ops.append.batching import BatchMaker, Writing, blocks
from kafkalog_cli.ops.append.reading import NewRecord
from kafkalog_cli.ops.apply_changes import MarkerState
from kafkalog_cli.ops.partition_state import Roots
from kafkalog_cli.ops.settings import SettingsSource
from tests.interop.change_cases import BROKER, Changed, Settled, line_of
from tests.interop.loader_cases import MARKER, MARKER_BYTES, NOW_MS, contents, file_differences, write


class AppendCase(NamedTuple):
    seed: int
    log: Settled
    settings: dict
    records: tuple
    how: dict  # the fields of Writing

    def __str__(self):
        return f"{self.seed} {self.log.name} [{self.log.log_start}, {self.log.log_end}) {len(self.records)} records {self.how} {self.settings}"


def make_append(seed, logs):
    chance = Random(seed)
    log = chance.choice(logs)
    least = max(len(data) for name, data in log.files.items() if name.endswith("index")) // 24 * 24 + 48
    settings = {
        "internal.segment.bytes": chance.choice([3000, 3000, 6000, 50_000, 1 << 20]),
        "segment.index.bytes": chance.choice([4096, 4096, least, least + 8]),
        "index.interval.bytes": chance.choice([0, 100, 300, 4096]),
        "segment.ms": chance.choice([1, 1_000, 100_000, 1 << 40, 1 << 40]),
        "message.timestamp.type": chance.choice(["CreateTime", "CreateTime", "LogAppendTime"]),
        "message.timestamp.after.max.ms": 1 << 62,
        "max.message.bytes": 2500,
        "cleanup.policy": chance.choice(["delete", "delete", "compact"]),
    }
    if chance.random() < 0.2:
        settings["compression.type"] = chance.choice(["gzip", "lz4", "uncompressed"])
    records, time_ms = [], NOW_MS - chance.choice([0, 0, 200_000])
    for _ in range(chance.choice([1, 3, 30, 100])):
        time_ms += chance.choice([0, 1, 1, 5, -3, 2_000])
        headers = tuple(
            Header(chance.randbytes(3), chance.choice([None, b"", b"x" * 40]))
            for _ in range(chance.choice([0, 0, 0, 2]))
        )
        key = chance.choice([None, b"", b"k%d" % chance.randrange(9)])
        value = chance.choice([None, b"", chance.randbytes(chance.randrange(300)), b"v" * chance.randrange(400)])
        records.append(
            NewRecord(key, value, headers, chance.choice([time_ms, time_ms, None, -1 if seed % 5 == 0 else time_ms]))
        )
    how = {
        "codec": chance.choice(["none", "none", "gzip", "lz4", "snappy", "zstd"]),
        "batch_bytes": chance.choice([1, 200, 1000, 1800]),
        "leader_epoch": chance.choice([None, None, 50]),
    }
    kind = chance.randrange(4)
    if kind >= 2:
        how |= {"producer_id": 70 + chance.randrange(3), "producer_epoch": chance.choice([5, 6])}
    if kind == 3:
        how["transaction"] = chance.choice(["commit", "abort", "open"])
    return AppendCase(seed, log, settings, tuple(records), how)


def batches_of(plan, request, records, base_offset, sequence):
    """The batches as a producer would send them, and the marker as the coordinator would."""
    style = replace(plan.style, append_time_ms=None)
    maker, data = BatchMaker(style, sequence), b""
    for block in blocks(records, style, request.now_ms):
        data += b"".join(_as_sent(maker, block))
    if request.writing.transaction in ("commit", "abort"):
        header = Batch(0, 0, 0, 0, 0, 2, 0, 0, -1, -1, style.producer_id, style.producer_epoch, -1, 0, 1)
        data += encode_end_marker(int(request.writing.transaction == "commit"), 0, request.now_ms, header)[1]
    return data


def _as_sent(maker, block):
    """A producer's batches begin at offset 0."""
    made = maker.encode(block, 0)
    for batch in made.batches.rows():
        whole = bytearray(made.data[batch.position : batch.position + batch.size_bytes])
        whole[:8] = bytes(8)
        whole[12:16] = b"\xff" * 4
        yield bytes(whole)


def compare_append(case, real, folder):
    """(what differs, in words; what the real one made)."""
    root = folder / "log.dir"
    directory = write(case.log.files, root / "t-0")
    (root / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    lines = {"replication": case.log.log_end, "recovery-point": case.log.log_end}
    if case.log.log_start > case.log.first_base:
        lines["log-start"] = case.log.log_start
    for name, offset in lines.items():
        (root / f"{name}-offset-checkpoint").write_text(f"0\n1\nt 0 {offset}\n")
    (root / MARKER).write_bytes(MARKER_BYTES)
    fs = RealFilesystem()
    partition = open_partition(fs, str(directory))
    state = Roots(fs).state(str(root), partition)
    source = SettingsSource(fs, {name: str(value) for name, value in case.settings.items()}, BROKER)
    request = AppendRequest(NOW_MS, source, writing=Writing(**case.how))
    plan = plan_append(fs, partition, state, request)
    if plan.is_refused:
        found = [f"ours refuses: {plan.remarks}"], None
    else:
        found = _compare(case, real, folder, fs, plan, state, request)
    for path in Path(folder).iterdir():
        shutil.rmtree(path)
    return found


def _compare(case, real, folder, fs, plan, state, request):
    directory, root = Path(plan.path), folder / "log.dir"
    log = OpenLog(
        Draft(fs, plan.path), request.load_settings(str(root), "t"), state.log_start, case.log.log_end, is_clean=True
    )
    sequence = next_sequence(log.producers_at_end(log.draft.fork()).state, request.writing)
    sent = batches_of(plan, request, case.records, case.log.log_end, sequence)
    (folder / "sent").mkdir()
    (folder / "sent" / "batches").write_bytes(sent)
    other = write(case.log.files, folder / "real" / "t-0")
    settings = dict(case.settings)
    answer = real.change(other, case.log, f"append:{folder}/sent/batches:{plan.style.leader_epoch}", settings)
    try:
        result = apply_append(fs, plan, case.records, RunInfo("run-1", "append", (), NOW_MS), request, held=None)
    except BadInput as error:
        ours = Changed(None, refused=str(error))
        after = file_differences(contents(directory), case.log.files)
        found = [f"refused, and changed: {after}"] if after else []
        found += [] if answer[0] != "ok" else [f"ours {ours.refused}, real {answer}"]
        return found, "refused"
    if answer[0] != "ok":
        return [f"ours {result.appended}, real {answer}"], "refused"
    found = file_differences(contents(directory), contents(other))
    end = plan.log_end_offset + len(case.records) + (request.writing.transaction in ("commit", "abort"))
    offsets = int(answer[2]), line_of(root, "recovery-point")
    if offsets != (end, end):
        found.append(f"ends at {end}, real {offsets[0]}, recovery point {offsets[1]}")
    if (result.done.marker is MarkerState.BACK) != (root / MARKER).exists() or (
        not (root / MARKER).exists() and not case.log.is_odd
    ):
        found.append(f"the marker: {result.done.marker}")
    return found, "rolled" if result.appended.rolled else "appended"

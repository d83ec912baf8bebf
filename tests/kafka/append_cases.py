"""Cases for append: a log, settings, records and how they come; what the real leader's log and ours make of them."""

import shutil
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.kafka.change_cases import BROKER, Changed, Settled, line_of
from tests.kafka.loader_cases import MARKER, MARKER_BYTES, NOW_MS, contents, file_differences, write
from tests.support.product import BadInput
from tests.support.product_kafka import OnePartition, is_marker_away


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
            (chance.randbytes(3), chance.choice([None, b"", b"x" * 40])) for _ in range(chance.choice([0, 0, 0, 2]))
        )
        key = chance.choice([None, b"", b"k%d" % chance.randrange(9)])
        value = chance.choice([None, b"", chance.randbytes(chance.randrange(300)), b"v" * chance.randrange(400)])
        records.append((key, value, headers, chance.choice([time_ms, time_ms, None, -1 if seed % 5 == 0 else time_ms])))
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
    appending = OnePartition(root, directory, case.settings, BROKER, NOW_MS).append(case.how)
    if appending.plan.is_refused:
        found = [f"ours refuses: {appending.plan.remarks}"], None
    else:
        found = _compare(case, real, folder, appending)
    for path in Path(folder).iterdir():
        shutil.rmtree(path)
    return found


def _compare(case, real, folder, appending):
    plan = appending.plan
    directory, root = Path(plan.path), folder / "log.dir"
    (folder / "sent").mkdir()
    (folder / "sent" / "batches").write_bytes(appending.sent(case.records, case.log.log_end))
    other = write(case.log.files, folder / "real" / "t-0")
    settings = dict(case.settings)
    answer = real.change(other, case.log, f"append:{folder}/sent/batches:{plan.style.leader_epoch}", settings)
    try:
        appended, done = appending.apply(case.records)
    except BadInput as error:
        ours = Changed(None, refused=str(error))
        after = file_differences(contents(directory), case.log.files)
        found = [f"refused, and changed: {after}"] if after else []
        found += [] if answer[0] != "ok" else [f"ours {ours.refused}, real {answer}"]
        return found, "refused"
    if answer[0] != "ok":
        return [f"ours {appended.appended}, real {answer}"], "refused"
    found = file_differences(contents(directory), contents(other))
    end = plan.log_end_offset + len(case.records) + (case.how.get("transaction") in ("commit", "abort"))
    offsets = int(answer[2]), line_of(root, "recovery-point")
    if offsets != (end, end):
        found.append(f"ends at {end}, real {offsets[0]}, recovery point {offsets[1]}")
    is_away = not (root / MARKER).exists()
    if is_marker_away(done) is not is_away or (is_away and not case.log.is_odd):
        found.append("the marker is away" if is_away else "the marker is there, and reported as away")
    return found, "rolled" if appended.appended.rolled else "appended"

"""Verifies a small log in memory, with the files beside it that a broker would have."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.ops.checks.diagnose import Finding
from kafkalog_cli.ops.checks.finding_kinds import Severity
from kafkalog_cli.ops.checks.segment_reports import ReadContext
from kafkalog_cli.ops.verify.partition import verify_partition
from kafkalog_cli.ops.verify.places import TopicFacts
from kafkalog_cli.ops.verify.task import Level, Verification, VerifyTask
from tests.bad_input.makers import SmallLog
from tests.support.faulty_fs import FaultyFilesystem
from tests.support.logs import indexes
from tests.support.naive_reader import read_batches

FOLDER = "/topic-0"
NOW_MS = 1_700_000_000_000
PLAIN = KernelChoice(forced=False)


class Told(NamedTuple):
    """A finding without its prose."""

    kind: str
    position: int | None
    message: str


@cache
def beside(log: SmallLog) -> dict[str, bytes]:
    """Offset index with an entry a batch, time index, leader epochs."""
    if log.is_seven:
        return {}
    batches = list(read_batches(log.data))
    written = [(log.data[b.position : b.position + b.size_bytes], b.last_offset, b.max_timestamp) for b in batches]
    index, times = indexes(written, 0, 0)
    epochs = sorted({b.leader_epoch for b in batches if b.leader_epoch >= 0})
    lines = "".join(f"{epoch} 0\n" for epoch in epochs)
    return {
        f"{0:020}.index": index,
        **({} if batches[0].magic == 0 else {f"{0:020}.timeindex": times}),
        "leader-epoch-checkpoint": f"0\n{len(epochs)}\n{lines}".encode(),
    }


def verified(
    files: dict[str, bytes], level: Level = Level.DEEP, choice: KernelChoice = PLAIN, facts: TopicFacts | None = None
) -> Verification:
    """What is found in a partition of such files."""
    fs = FaultyFilesystem({f"{FOLDER}/{name}": data for name, data in files.items()})
    task = VerifyTask(open_partition(fs, FOLDER), level, NOW_MS, facts=facts or TopicFacts())
    return verify_partition(ReadContext(fs, choice=choice), task)


def bad(findings: tuple[Finding, ...]) -> set[Told]:
    """The findings from a warning on."""
    return {
        Told(found.kind.value, found.position, found.message)
        for found in findings
        if found.severity is not Severity.INFO
    }

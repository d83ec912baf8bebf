"""Bad last batches that the broker had acknowledged before it stopped cleanly: damage since then, not torn tails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafkalog_cli.ops.listing.root import LogDirRoot, Shutdown
from kafkalog_cli.ops.next_steps import CUT_ACKNOWLEDGED
from kafkalog_cli.ops.verify.diagnose import Finding, finding
from kafkalog_cli.ops.verify.finding_kinds import FindingKind

_EFFECT = "after the clean stop a broker keeps it: consumers fail at it, and followers that fetch it stop"


def with_acknowledged(
    findings: Iterable[Finding], root: LogDirRoot | None, topic: str, partition: int | None
) -> Iterator[Finding]:
    """Yield the findings; a bad last batch below the high watermark of a clean stop becomes corruption."""
    watermark = None
    if root is not None and partition is not None and root.shutdown is Shutdown.CLEAN:
        watermark = root.offsets_of(topic, partition).high_watermark
    for one in findings:
        is_tail = one.kind is FindingKind.BAD_TAIL_BATCH and one.first_offset is not None
        if not is_tail or watermark is None or one.first_offset is None or one.first_offset >= watermark:
            yield one
            continue
        yield finding(
            FindingKind.CRC_MISMATCH,
            one.path,
            f"{one.message}, and the broker stopped cleanly with the high watermark {watermark}: it was whole then",
            position=one.position,
            expected=one.expected,
            got=one.got,
            offsets=(one.first_offset, one.last_offset if one.last_offset is not None else one.first_offset),
            broker_effect=_EFFECT,
            next_step=CUT_ACKNOWLEDGED.text,
        )

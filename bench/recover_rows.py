"""The rows of recover: after an unclean stop against the broker's own loading, and how time grows with the log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from jvm import load_command
from make_inputs import Input
from rows import Measure, Row, described
from unclean import UncleanPartition

LARGE = 4


class _Made:
    """A partition that is made when a row of it is first run."""

    def __init__(self, directory: Path, log: Input, copies: int) -> None:
        self.path = directory / "t-0"
        self._make = lambda: UncleanPartition(directory, log.segments[0], copies)
        self._made: UncleanPartition | None = None

    def reset(self) -> None:
        self._made = self._made or self._make()
        self._made.reset()


def recover_rows(found: dict[str, Input], directory: Path, kafkalog: list[str]) -> list[Row]:
    """Both ways of recovering what a killed broker left, and four times as much of it against once."""
    if "uncompressed" not in found:
        return []
    log = found["uncompressed"]._replace(segments=found["uncompressed"].segments[:1])
    one = _Made(directory / f"{log.size_bytes}-once", log, 1)
    four = _Made(directory / f"{log.size_bytes}-{LARGE}-times", log, LARGE)
    loader = load_command(one.path)
    rows = [
        _against_broker(f"recover{mode}, {described(log)}, torn", mode.split(), one, loader)
        for mode in (" --like-broker", "")
    ]
    for mode in (" --like-broker", ""):
        recover = ["recover", *mode.split()]
        rows.append(
            Row(
                f"recover{mode}, {LARGE} times as much",
                [*recover, str(four.path)],
                "kafkalog itself on once as much",
                [*kafkalog, *recover, str(one.path)],
                LARGE * 1.1,
                LARGE,
                Measure.TIMES_AS_LONG,
                _both(one, four),
            )
        )
    return rows


def _against_broker(work: str, mode: list[str], made: _Made, loader: list[str] | None) -> Row:
    arguments = ["recover", *mode, str(made.path)]
    return Row(work, arguments, "UnifiedLog.create and close", loader, 1.5, 4, prepare=made.reset)


def _both(one: _Made, four: _Made) -> Callable[[], None]:
    def reset() -> None:
        one.reset()
        four.reset()

    return reset

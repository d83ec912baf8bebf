"""The row of append: NDJSON in, against kafka-python's record builder on the same lines."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from make_inputs import Input
from measure import ROOT
from rows import Row, described

_BENCH = Path(__file__).resolve().parent
_FILES = (".log", ".index", ".timeindex")


def append_rows(found: dict[str, Input], directory: Path, kafkalog: list[str]) -> list[Row]:
    """The records of the uncompressed log, put behind the end of an empty one."""
    if "uncompressed" not in found:
        return []
    log = found["uncompressed"]
    lines, target = directory / f"{log.size_bytes}.ndjson", directory / "t-0"
    arguments = ["append", str(target), str(lines), "--single-replica", "--config", f"segment.ms={2**62}"]
    reader = [sys.executable, str(_BENCH / "build_kafka_python.py"), str(lines), str(directory / "batches")]

    def prepare() -> None:
        directory.mkdir(parents=True, exist_ok=True)
        if not lines.exists():
            with lines.open("wb") as out:
                command = [*kafkalog, "read", "--format", "json", str(log.segments[0].parent)]
                subprocess.run(command, stdout=out, check=True, cwd=ROOT)
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        for suffix in _FILES:
            (target / f"{0:020}{suffix}").touch()

    peer = "kafka-python's record builder"
    return [Row(f"append, NDJSON of {described(log)}", arguments, peer, reader, 1, 10, prepare=prepare)]

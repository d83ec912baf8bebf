"""The rows of append and import: NDJSON, Arrow and Parquet in.

The peers are a broker with a Java producer, and kafka-python's record builder.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from jvm import kafka_jars
from make_inputs import Input
from measure import ROOT
from real_broker import RealBroker
from rows import Row, described

_BENCH = Path(__file__).resolve().parent
_FILES = (".log", ".index", ".timeindex")
_PAYLOADS = 20_000
BROKER, BUILDER = "a broker and a Java producer", "kafka-python's record builder"


class _Inputs:
    """The records of a log as NDJSON, and as files of Arrow and Parquet, made when they are first needed."""

    def __init__(self, directory: Path, log: Input, kafkalog: list[str]) -> None:
        self.directory = directory
        self.lines, self.arrow = directory / f"{log.size_bytes}.ndjson", directory / f"{log.size_bytes}.arrow"
        self.parquet = self.arrow.with_suffix(".parquet")
        self.target, self.imported = directory / "t-0", directory / "imported"
        self._partition = log.segments[0].parent
        self._kafkalog = kafkalog
        self._broker = RealBroker(directory / "broker")

    def make(self) -> None:
        """What is not there yet, an empty partition, and an empty log directory."""
        self.directory.mkdir(parents=True, exist_ok=True)
        if not self.lines.exists():
            _write(self.lines, [*self._kafkalog, "read", "--format", "json", str(self._partition)])
        for path in (self.arrow, self.parquet):
            if not path.exists():
                writer = [sys.executable, str(_BENCH / "write_arrow.py"), str(self._partition), str(path)]
                (self.directory / "count").write_bytes(subprocess.run(writer, check=True, cwd=ROOT, stdout=-1).stdout)
        shutil.rmtree(self.imported, ignore_errors=True)
        self.imported.mkdir()
        shutil.rmtree(self.target, ignore_errors=True)
        self.target.mkdir()
        for suffix in _FILES:
            (self.target / f"{0:020}{suffix}").touch()

    def make_for_a_broker(self) -> None:
        """That, a broker, and values for the producer, which takes them by chance."""
        self.make()
        payloads = self.directory / "payloads"
        if not payloads.exists():
            words = ["--max-records", str(_PAYLOADS), "--print", "value", str(self._partition)]
            _write(payloads, [*self._kafkalog, "read", *words])
        count = (self.directory / "count").read_text().strip()
        (self.directory / "produce").write_text(f"{self._broker.address()} {count}")


def _write(path: Path, command: list[str]) -> None:
    with path.open("wb") as out:
        subprocess.run(command, stdout=out, check=True, cwd=ROOT)


def append_rows(found: dict[str, Input], directory: Path, kafkalog: list[str]) -> list[Row]:
    """The records of the uncompressed log, put behind the end of an empty one."""
    if "uncompressed" not in found:
        return []
    log = found["uncompressed"]
    inputs = _Inputs(directory, log, kafkalog)
    arguments = ["append", str(inputs.target), str(inputs.lines), "--single-replica", "--config", f"segment.ms={2**62}"]
    library = [sys.executable, str(_BENCH / "append_arrow.py"), str(inputs.arrow), str(inputs.target)]
    builder = [sys.executable, str(_BENCH / "build_kafka_python.py"), str(inputs.lines), str(directory / "batches")]
    importing = ["import", str(inputs.parquet), "--log-dir", str(inputs.imported), "--topic", "imported"]
    jars = kafka_jars()
    producer = None if jars is None else [sys.executable, str(_BENCH / "produce.py"), str(directory), str(jars)]

    def row(
        what: str, command: list[str] | None, peer: str, peers: list[str] | None, prepare: Callable[[], None]
    ) -> Row:
        work = f"append, {what}, against {peer}, {described(log)}"
        return Row(work, arguments, peer, peers, 1, 10, prepare=prepare, command=command)

    return [
        row("NDJSON in", None, BUILDER, builder, inputs.make),
        row("NDJSON in", None, BROKER, producer, inputs.make_for_a_broker),
        row("Arrow in", library, BUILDER, builder, inputs.make),
        row("Arrow in", library, BROKER, producer, inputs.make_for_a_broker),
        Row(f"import, Parquet in, against {BROKER}, {described(log)}", [*importing, "--partitions", "1"], BROKER,
            producer, 1, 10, prepare=inputs.make_for_a_broker),
    ]  # fmt: skip

"""Runs the real DumpLogSegments and kafkalog in turn on the same files, and prints what they took as a table."""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))

from append_rows import append_rows
from compact_rows import compact_rows
from jvm import KAFKA_VERSION, cache_directory, dump_command, java_version
from make_inputs import find
from measure import ROOT, Failed, Pairs, run_pairs, same_output, smallest_peak_bytes
from page import measured_now, publish, with_rows_before
from partition_rows import partition_rows
from read_rows import FORMATTER, read_rows
from recover_rows import recover_rows
from rows import MOST_PEAK_BYTES, Measure, Row, rows

TABLE_BEGIN, TABLE_END = "<!-- table -->", "<!-- end of table -->"


class Result(NamedTuple):
    """A row and what came of it: its runs, or why there are none."""

    row: Row
    pairs: Pairs | None
    problem: str = ""

    @property
    def verdict(self) -> str:
        if self.pairs is None:
            return self.problem
        if not self.pairs.peer and self.row.measure is not Measure.SECONDS:
            return "no peer"
        if self.pairs.peak_bytes >= MOST_PEAK_BYTES:
            return f"over {MOST_PEAK_BYTES >> 20} MiB"
        return "met" if self.row.meets_floor(self.pairs) else "missed"

    def cells(self) -> list[str]:
        row, pairs = self.row, self.pairs
        bars = [row.bar(row.floor), row.bar(row.moonshot)]
        if pairs is None:
            return [row.work, *["-"] * 4, *bars, "-", "-", self.problem]
        ours = [f"{pairs.seconds:.3g}", f"{pairs.peak_bytes / (1 << 20):.0f}"]
        if not pairs.peer:
            return [row.work, "-", ours[0], "-", "-", *bars, "-", ours[1], self.verdict]
        inverse = row.measure is Measure.TIMES_AS_LONG
        ratios = sorted(1 / ratio for ratio in pairs.ratios) if inverse else pairs.ratios
        ratio = 1 / pairs.ratio if inverse else pairs.ratio
        span = f"{ratios[0]:.2f} to {ratios[-1]:.2f} ({len(ratios)})"
        peer_peak = f"{pairs.peer_peak_bytes / (1 << 20):.0f}"
        times = f"**{ratio:.2f}**{' as long' if inverse else ''}"
        return [row.work, f"{pairs.peer_seconds:.3g}", ours[0], times, span, *bars, peer_peak, ours[1],
                self.verdict]  # fmt: skip


HEADINGS = ["Work", "peer s", "kafkalog s", "ratio", "peak MiB", "measured"]


def measure_row(row: Row, kafkalog: list[str], options: argparse.Namespace) -> Result:
    """Run one row; what it prints goes to stderr at once, so that a long run can be watched."""
    command = [*kafkalog, *row.arguments] if row.command is None else row.command
    try:
        pairs = run_pairs(command, row.peer, options.runs, options.row_seconds, row.prepare)
    except Failed as problem:
        result = Result(row, None, str(problem))
    else:
        result = Result(row, pairs)
        alike = row.peer if row.peer_name in ("DumpLogSegments", FORMATTER) else None
        if options.same_output and alike and not same_output(command, alike):
            result = Result(row, None, "prints other bytes than its peer")
    print("  ".join(result.cells()), file=sys.stderr, flush=True)
    return result


def table(table_rows: Sequence[Sequence[str]]) -> str:
    """The Markdown table."""
    lines = [f"| {' | '.join(HEADINGS)} |", "|---|" + "---:|" * (len(HEADINGS) - 2) + "---|"]
    lines += [f"| {' | '.join(cells)} |" for cells in table_rows]
    return "\n".join(lines)


def table_row(result: Result) -> list[str]:
    """The cells of the page. The ratio of a row below its floor is followed by the reason and the floor."""
    work, peer, ours, ratio, _, floor, _, _, peak, verdict = (cell.replace("|", "/") for cell in result.cells())
    return [work, peer, ours, ratio if verdict == "met" else f"{ratio} ({verdict}: {floor})", peak, measured_now()]


def machine(inputs_note: str) -> str:
    """What the figures depend on, in a paragraph; no names of directories."""
    cpu = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text()) if sys.platform == "linux" else None
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "zstandard", "lz4", "cramjam"))
    return (
        f"{cpu[1] if cpu else platform.machine()}, {os.cpu_count()} cores, "
        f"{memory:.0f} GiB, {platform.system()}. Python {platform.python_version()}, {packages}; "
        f"Kafka {KAFKA_VERSION} on Java {java_version()}; kafka-python {version('kafka-python')}. "
        f"Inputs: {inputs_note}."
    )


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=("full", "small"), default="full", help="of the logs that are made")
    parser.add_argument("--directory", type=Path, help="take logs that exist at or below DIRECTORY instead")
    parser.add_argument("--inputs-note", help="what those logs are, for the page")
    parser.add_argument("--only", default="", metavar="REGEX", help="only rows whose first column matches")
    parser.add_argument("--runs", type=int, default=5, help="pairs a row (short rows: three times as many)")
    parser.add_argument(
        "--row-seconds",
        type=float,
        default=20,
        help="no further pair after so long if there are three, or twice so long",
    )
    parser.add_argument("--same-output", action="store_true", help="also compare what both print, byte for byte")
    parser.add_argument(
        "--publish", action="store_true", help="write the table into docs/bench.md; with --only, these rows of it"
    )
    parser.add_argument("--check", action="store_true", help="exit 1 if a floor is missed")
    return parser.parse_args()


def kafkalog_command() -> list[str]:
    installed = Path(sys.executable).with_name("kafkalog")
    return [str(installed)] if installed.exists() else [sys.executable, "-m", "kafkalog_cli"]


def main() -> int:
    options = parse_options()
    directory = options.directory
    if directory is None:
        directory = cache_directory() / f"bench-{options.size}"
        # In a process of its own: children are charged with the memory of this one, which stays small.
        make = [sys.executable, str(ROOT / "bench" / "make_inputs.py"), "--size", options.size, "--out", str(directory)]
        subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
    jvm, kafkalog = dump_command(), kafkalog_command()
    if jvm is None:
        print("no Java and Maven here: rows against DumpLogSegments show only kafkalog", file=sys.stderr)
    print(f"smallest peak that can be seen: {smallest_peak_bytes() >> 20} MiB", file=sys.stderr)
    found = find(directory)
    table_of_rows = [
        *rows(found, jvm),
        *read_rows(found),
        *recover_rows(found, cache_directory() / f"bench-recover-{options.size}", kafkalog),
        *append_rows(found, cache_directory() / f"bench-append-{options.size}", kafkalog),
        *compact_rows(cache_directory() / "bench-compact", options.size),
        *partition_rows(cache_directory() / "bench-partitions", options.size, jvm),
    ]
    chosen = [row for row in table_of_rows if re.search(options.only, row.work)]
    results = [measure_row(row, kafkalog, options) for row in chosen]
    note = options.inputs_note or ("logs that exist" if options.directory else "made by bench/make_inputs.py")
    measured: Sequence[Sequence[str]] = [table_row(result) for result in results]
    print(f"{machine(note)}\n\n{table(measured)}")
    if options.publish:
        if options.only:
            order = [row.work.replace("|", "/") for row in table_of_rows]
            measured = with_rows_before(measured, order, TABLE_BEGIN, TABLE_END)
        publish(f"{machine(note)}\n\n{table(measured)}", TABLE_BEGIN, TABLE_END)
    return int(options.check and any(result.verdict != "met" for result in results))


if __name__ == "__main__":
    sys.exit(main())

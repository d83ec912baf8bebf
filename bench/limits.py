"""Measures what the rows of bench/compare.py are bound by: their CPU seconds, and the CPU seconds of each part alone.

The parts are the start (the same command on a log of 8 KiB, so with all imports), the libraries that large logs need
(NumPy, and the loader of machine code), reading the files from the page cache, their checksums and their codec, listing
the partitions of a log directory with the status of each file, copying as many bytes as the command prints, and writing
and syncing as many bytes as it writes to files. The limit is their sum. `limit wall s` has the parts after the start
and the libraries on all cores.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent))

from append_rows import append_rows
from compact_rows import compact_rows
from compare import kafkalog_command
from jvm import cache_directory
from make_inputs import find, make, segments_of
from measure import OUR_CODES, ROOT, run
from page import publish, with_rows_before
from partition_rows import partition_rows
from read_rows import read_rows
from recover_rows import recover_rows
from rows import SMALL_FILE, Row, rows
from smoke import parts_of, reading_seconds, warm_up

BEGIN, END = "<!-- limits -->", "<!-- end of limits -->"
PARTS = ["start", "libraries", "page cache", "CRC", "codec", "names", "output", "files"]
HEADINGS = ["Work", "CPU s", *PARTS, "limit CPU s", "of CPU", "bound by", "limit wall s", "measured"]
ROWS = "dump|default|deep|print|verify|NDJSON of|read,|recover|record builder|compact|ls,"
CHANGES = ("recover", "compact", "append")
BLOCK_BYTES = 1 << 20


def files_of(arguments: list[str]) -> tuple[list[Path], list[str]]:
    """Return the segments that a command reads, and its arguments with the small log in their place."""
    files: list[Path] = []
    small = []
    for argument in arguments:
        paths = [Path(one) for one in argument.split(",")]
        if not all(path.is_absolute() and path.exists() for path in paths):
            small.append(argument)
        elif paths[0].is_dir():
            files += segments_of(paths[0]) or sorted(paths[0].glob("*/*.log"))
            small.append(str(SMALL_FILE.parent))
        else:
            files += paths
            small.append(str(SMALL_FILE))
    return files, small


def output_seconds(command: list[str]) -> float:
    """Return the CPU seconds of copying as many bytes as a command prints, block by block."""
    block, copied, printed = bytearray(BLOCK_BYTES), bytearray(BLOCK_BYTES), 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT) as child:
        assert child.stdout is not None
        while got := child.stdout.readinto(block):  # type: ignore[attr-defined]
            printed += got
    begin = time.process_time()
    for _ in range(printed // BLOCK_BYTES):
        copied[:] = block
    return time.process_time() - begin


def names_seconds(log_dir: Path) -> float:
    """Return the CPU seconds of listing the partitions of a log directory, with the status of each file."""
    begin = time.process_time()
    for partition in os.scandir(log_dir):
        for entry in os.scandir(partition.path):
            entry.stat()
    return time.process_time() - begin


def files_seconds(size_bytes: int, directory: Path) -> float:
    """Return the CPU seconds of writing and syncing as many bytes to a new file in a directory."""
    block = bytes(BLOCK_BYTES)
    with tempfile.TemporaryFile(dir=directory) as file:
        begin = time.process_time()
        for _ in range(size_bytes // BLOCK_BYTES):
            file.write(block)
        os.fsync(file.fileno())
        return time.process_time() - begin


def libraries_seconds(runs: int) -> float:
    """Return the CPU seconds of importing what questions about columns need."""
    bare, full = (
        median(run([sys.executable, "-c", code]).cpu_seconds for _ in range(runs))
        for code in ("pass", "import ctypes, numpy")
    )
    return full - bare


def reading_parts(files: list[Path]) -> dict[str, float]:
    """Return the CPU seconds of reading files, of the checksums of segments, and of their codec, each alone."""
    parts = defaultdict[str, float](float)
    for file in files:
        if file.suffix != ".log":
            parts["page cache"] += reading_seconds(file)
        elif file.stat().st_size:
            for part, seconds in parts_of(file).items():
                parts[part if part in PARTS else "codec"] += seconds
    return parts


def cells(row: Row, kafkalog: list[str], runs: int) -> list[str]:
    """Return a row of the table; all figures but the parts of the work are medians of `runs`."""
    row.prepare()
    files, small = files_of(row.arguments if row.command is None else row.command[2:])
    is_change = row.arguments[0] in CHANGES
    command = row.command or [*kafkalog, *row.arguments]
    log_dir = Path(row.arguments[-1])
    has_partitions = log_dir.is_dir() and bool(files) and files[0].parent != log_dir
    if row.arguments[0] == "ls":
        files = []  # only their names are read
    is_large = sum(file.stat().st_size for file in files) > BLOCK_BYTES
    parts = defaultdict[str, float](float)
    if has_partitions:
        parts["names"] = names_seconds(log_dir)
    times = 2 if row.arguments[0] == "compact" else 1
    for part, seconds in reading_parts(files).items():
        parts[part] += times * seconds
    if not is_change:
        parts["output"] = output_seconds(command)
    ours = []
    for _ in range(runs):
        row.prepare()
        ours.append(run(command, OUR_CODES))
    seconds = median(one.cpu_seconds for one in ours)
    if is_change:
        parts["files"] = files_seconds(ours[-1].written_bytes, files[0].parent)
    of_start = [*kafkalog, *(["verify", str(SMALL_FILE.parent)] if is_change else small)]
    parts["start"] = median(run(of_start, OUR_CODES).cpu_seconds for _ in range(runs))
    if is_large:
        parts["libraries"] = libraries_seconds(runs)
    limit = sum(parts.values())
    single = parts["start"] + parts["libraries"]
    wall = single + (limit - single) / (os.cpu_count() or 1)
    return [row.work, f"{seconds:.3f}", *(f"{parts[part]:.3f}" for part in PARTS), f"{limit:.3f}",
            f"{limit / seconds:.0%}", max(parts, key=parts.__getitem__), f"{wall:.3f}",
            dt.date.today().isoformat()]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=("full", "small"), default="full", help="of the logs that are made")
    parser.add_argument("--only", default=ROWS, metavar="REGEX")
    parser.add_argument("--runs", type=int, default=3, help="of each command")
    parser.add_argument("--publish", action="store_true", help="write the table into docs/bench.md")
    options = parser.parse_args()
    warm_up()
    directory = cache_directory() / f"bench-{options.size}"
    make(options.size, directory)
    inputs, kafkalog = find(directory), kafkalog_command()
    table_of_rows = [
        *rows(inputs, None),
        *read_rows(inputs),
        *recover_rows(inputs, cache_directory() / f"bench-recover-{options.size}", kafkalog)[:2],
        *append_rows(inputs, cache_directory() / f"bench-append-{options.size}", kafkalog),
        *compact_rows(cache_directory() / "bench-compact", options.size),
        *partition_rows(cache_directory() / "bench-partitions", options.size, None),
    ]
    measured: Sequence[Sequence[str]] = [
        cells(row, kafkalog, options.runs) for row in table_of_rows if re.search(options.only, row.work)
    ]
    print(table(measured))
    if options.publish:
        if options.only != ROWS:
            measured = with_rows_before(measured, [row.work for row in table_of_rows], BEGIN, END)
        publish(table(measured), BEGIN, END)
    return 0


def table(measured: Sequence[Sequence[str]]) -> str:
    """Return the table in Markdown."""
    lines = [HEADINGS, ["---", *["---:"] * (len(HEADINGS) - 4), "---", "---:", "---"], *measured]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    sys.exit(main())

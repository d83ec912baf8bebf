"""Measures what the rows of bench/compare.py are bound by: their CPU seconds, and the CPU seconds of each part alone.

The parts are the start (the same command on a log of 8 KiB, so with all imports), reading the files from the page
cache, their checksums and their codec. The limit is their sum. `limit wall s` has the parts after the start on all
cores. For `recover` and `compact` the parts do not contain the files that they write.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent))

from compact_rows import compact_rows
from compare import kafkalog_command, publish
from jvm import cache_directory
from make_inputs import find, make, segments_of
from measure import OUR_CODES, run
from read_rows import read_rows
from recover_rows import recover_rows
from rows import SMALL_FILE, Row, rows
from smoke import parts_of, warm_up

BEGIN, END = "<!-- limits -->", "<!-- end of limits -->"
HEADINGS = ["Work", "CPU s", "start", "page cache", "CRC", "codec", "limit CPU s", "of CPU", "bound by", "limit wall s"]


def files_of(arguments: list[str]) -> tuple[list[Path], list[str]]:
    """Return the segments that a command reads, and its arguments with the small log in their place."""
    files: list[Path] = []
    small = []
    for argument in arguments:
        paths = [Path(one) for one in argument.split(",")]
        if not all(path.is_absolute() and path.exists() for path in paths):
            small.append(argument)
        elif paths[0].is_dir():
            files += segments_of(paths[0])
            small.append(str(SMALL_FILE.parent))
        else:
            files += paths
            small.append(str(SMALL_FILE))
    return files, small


def cells(row: Row, kafkalog: list[str], runs: int) -> list[str]:
    """Return a row of the table; all figures but the parts are medians of `runs`."""
    row.prepare()
    files, small = files_of(row.arguments)
    times = 2 if row.arguments[0] == "compact" else 1
    found = defaultdict[str, float](float)
    for file in files:
        for part, seconds in (parts_of(file) if file.stat().st_size else {}).items():
            found[part if part in ("page cache", "CRC") else "codec"] += times * seconds
    changes = row.arguments[0] in ("recover", "compact")
    of_start = [*kafkalog, *(["verify", str(SMALL_FILE.parent)] if changes else small)]
    ours = []
    for _ in range(runs):
        row.prepare()
        ours.append(run([*kafkalog, *row.arguments], OUR_CODES).cpu_seconds)
    start = median(run(of_start, OUR_CODES).cpu_seconds for _ in range(runs))
    parts = {"start": start, "page cache": found["page cache"], "CRC": found["CRC"], "codec": found["codec"]}
    limit = sum(parts.values())
    wall = start + (limit - start) / (os.cpu_count() or 1)
    return [row.work, f"{median(ours):.3f}", *(f"{one:.3f}" for one in parts.values()), f"{limit:.3f}",
            f"{limit / median(ours):.0%}", max(parts, key=parts.__getitem__), f"{wall:.3f}"]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=("full", "small"), default="full", help="of the logs that are made")
    parser.add_argument("--only", default="dump|default|deep|print|verify|read,|recover|compact", metavar="REGEX")
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
        *compact_rows(cache_directory() / "bench-compact", options.size),
    ]
    lines = [HEADINGS, ["---", *["---:"] * 7, "---", "---:"]]
    for row in table_of_rows:
        if re.search(options.only, row.work):
            lines.append(cells(row, kafkalog, options.runs))
            print(f"| {' | '.join(lines[-1])} |", file=sys.stderr, flush=True)
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    print(text)
    if options.publish:
        publish(text, BEGIN, END)
    return 0


if __name__ == "__main__":
    sys.exit(main())

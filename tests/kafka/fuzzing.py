"""How a fuzz against the real classes is run: its options, a folder in memory, the cases that differ, a row of docs/compared.md."""

import argparse
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from tests.kafka.loader_cases import write
from tests.kafka.real_kafka import VERSION
from tests.support.archives import CORPUS, unpack

PAGE = Path(__file__).parents[2] / "docs" / "compared.md"


def run_fuzz(description, count, fuzz, *, row, flags=()):
    """The exit code: 1 if a case differs. `fuzz` gets the options, the folder and where cases are kept; words and tally.

    `row` is the first cell of the table in docs/compared.md.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--keep", type=Path, help="directory for cases that differ")
    parser.add_argument("--record", action="store_true", help="put the result into docs/compared.md")
    for flag, what in flags:
        parser.add_argument(flag, action="store_true", help=what)
    options = parser.parse_args()
    kept = options.keep or Path(tempfile.mkdtemp(prefix="fuzz-cases-"))
    # a file system in memory, if there is one: the real log waits for the disk after every file
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="fuzz-", dir=memory if memory.is_dir() else None))
    begun = time.monotonic()
    try:
        words, tally = fuzz(options, folder, kept)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    result = f"{words}{tally}; seed {options.seed}, {time.monotonic() - begun:.0f} s"
    print(result)
    if options.record:
        record(row, f"Kafka {VERSION}", result)
    if tally.different:
        print(f"kept in {kept}")
    return 1 if tally.different else 0


def unpacked_corpus(folder):
    """The corpus below `folder`, and beside it a folder to work in."""
    (folder / "work").mkdir()
    unpack(CORPUS, folder)
    return folder / "corpus", folder / "work"


def keep_case(kept, case, found):
    """The files of the log that a case begins with, and what differs."""
    print(case, *found[:8], sep="\n    ", flush=True)
    target = kept / str(case.seed)
    write(case.log.files, target / "before")
    (target / "case.txt").write_text("\n".join([str(case), str(case.mtimes), *found]) + "\n")


def record(row, version, result):
    """Put date, version, commit and result of a run into the row of the table that begins with `row`."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=True
    ).stdout
    cells = f"{time.strftime('%Y-%m-%d')}, {version}, {commit.strip()} | {result}"
    pattern = rf"(?m)^(\| {re.escape(row)} (?:\| [^|]+){{2}})\| [^|]+ \| [^|]+ \|$"
    text, count = re.subn(pattern, lambda found: f"{found[1]}| {cells} |", PAGE.read_text())
    assert count == 1, f"docs/compared.md has no row for {row}"
    PAGE.write_text(text)

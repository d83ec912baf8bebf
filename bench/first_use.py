"""Measures what a new user meets: what an installation downloads and takes on disk, and what the first commands take.

Builds a wheel of this tree, downloads what it needs without extras from the package index, and installs both into an
environment that is thrown away. HOME is empty in all runs. With `--before`, an earlier kafkalog starts in turn with it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))

from first_row import EXAMPLE, QUERY
from first_row import measured as until_first_row
from logs import Log, text_record, write_log
from measure import OUR_CODES, ROOT, run
from page import measured_now, publish
from rows import SMALL_FILE

TABLE_BEGIN, TABLE_END = "<!-- first use -->", "<!-- end of first use -->"
TYPER = "typer==0.28.*"
"""The one of the image and of the single file, which the starts are measured with."""
SMALL_RECORDS_BYTES = 12_800_000
MEBIBYTE = 1 << 20


class Found(NamedTuple):
    """A row of the table: what was found, and the most that a release may have."""

    work: str
    amount: float
    most: float
    unit: str

    def cells(self) -> list[str]:
        missed = "" if self.amount <= self.most else " (missed)"
        return [self.work, f"{self.amount:.3g} {self.unit}{missed}", f"{self.most:g} {self.unit}", measured_now()]


def install(folder: Path) -> list[Found]:
    """Install kafkalog into `folder`/env as pip does; return what it downloads and what it takes."""
    downloads, environment = folder / "downloads", folder / "env"
    _pip(sys.executable, "wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    wheel = next(folder.glob("*.whl"))
    _pip(sys.executable, "download", "--only-binary", ":all:", "--dest", str(downloads), str(wheel))
    venv.create(environment, with_pip=True)
    python = str(environment / "bin" / "python")
    before = _bytes_on_disk(environment), _bytes_on_disk(environment, "*.pyc")
    _pip(python, "install", "--no-index", "--find-links", str(downloads), str(wheel))
    taken = _bytes_on_disk(environment) - before[0]
    bytecode = _bytes_on_disk(environment, "*.pyc") - before[1]
    _pip(python, "install", TYPER, f"{wheel}[duckdb]")
    return [
        Found("download without extras", sum(one.stat().st_size for one in downloads.iterdir()) / MEBIBYTE, 35, "MiB"),
        Found(f"installation, with {bytecode / MEBIBYTE:.0f} MiB of bytecode", taken / MEBIBYTE, 110, "MiB"),
    ]


def _pip(python: str, *words: str) -> None:
    subprocess.run([python, "-m", "pip", "--quiet", "--disable-pip-version-check", *words], check=True)


def _bytes_on_disk(folder: Path, names: str = "*") -> int:
    return sum(path.lstat().st_blocks for path in folder.rglob(names)) * 512


def cpu_seconds(commands: Sequence[list[str]], runs: int) -> list[float]:
    """Run the commands in turn; return the median of each. Each runs once before, as its files may not be in memory."""
    found = [[run(command, OUR_CODES).cpu_seconds for command in commands] for _ in range(runs + 1)]
    return [median(one) for one in zip(*found[1:], strict=True)]


def starts(kafkalog: str, before: str | None, runs: int) -> list[Found]:
    """Measure the starts, beside those of an earlier kafkalog."""
    found = [Found("`--version`", 1000 * cpu_seconds([[kafkalog, "--version"]], runs)[0], 90, "ms of CPU")]
    works = {
        "dump of a small file": ["dump-log", "--files", str(SMALL_FILE)],
        "`verify` of a small partition": ["verify", str(SMALL_FILE.parent)],
    }
    for work, words in works.items() if before else ():
        ours, theirs = cpu_seconds([[one, *words] for one in (kafkalog, before)], runs)
        name = f"{work} ({1000 * ours:.0f} ms), longer than f4347dcb"
        found.append(Found(name, 1000 * (ours - theirs), 40, "ms of CPU"))
    return found


def first_answers(kafkalog: str, folder: Path, runs: int) -> list[Found]:
    """Measure the records of a log of small records as JSON, and a query."""
    log = write_log(Log("small", "none", SMALL_RECORDS_BYTES, 10_850, text_record), folder)
    dump = [kafkalog, "dump-log", "--print-data-log", "--format", "json", "--files", str(log)]
    query = [kafkalog, "sql", "--engine", "duckdb", str(EXAMPLE), QUERY]
    seconds = median(until_first_row(query)[1] for _ in range(runs))
    return [
        Found("NDJSON of 12.8 MB of small records", cpu_seconds([dump], runs)[0], 0.4, "s of CPU"),
        Found("`sql --engine duckdb` to its first row", seconds, 1, "s"),
    ]


def table(found: Sequence[Found]) -> str:
    """Return the table in Markdown."""
    lines = ["| First use | measured | most | measured at |", "|---|---:|---:|---|"]
    return "\n".join(lines + [f"| {' | '.join(one.cells())} |" for one in found])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15, help="of each command")
    parser.add_argument("--before", metavar="KAFKALOG", help="the command of kafkalog at f4347dcb")
    parser.add_argument("--publish", action="store_true", help="write the table into docs/bench.md")
    options = parser.parse_args()
    before = options.before and shutil.which(options.before)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = install(folder)
        home = folder / "home"
        home.mkdir()
        os.environ["HOME"] = str(home)
        kafkalog = str(folder / "env" / "bin" / "kafkalog")
        found += starts(kafkalog, before, options.runs) + first_answers(kafkalog, folder, options.runs)
    text = table(found)
    print(text)
    if options.publish:
        publish(text, TABLE_BEGIN, TABLE_END)
    return 0


if __name__ == "__main__":
    sys.exit(main())

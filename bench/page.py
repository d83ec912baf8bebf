"""The tables of docs/bench.md, each between two marks; a run that measures some rows keeps the others."""

import datetime as dt
import subprocess
from collections.abc import Iterable, Sequence

from measure import ROOT

PAGE = ROOT / "docs" / "bench.md"


def measured_now() -> str:
    """Return the cell of a row that is measured now: the day and the commit."""
    command = ["git", "-C", str(ROOT), "rev-parse", "--short=8", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return f"{dt.date.today().isoformat()}, {commit}"


def publish(text: str, begin: str, end: str) -> None:
    """Put a table into the page, between its marks."""
    before, rest = PAGE.read_text(encoding="utf-8").split(begin, 1)
    after = rest.split(end, 1)[1]
    PAGE.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def with_rows_before(
    measured: Sequence[Sequence[str]], order: Iterable[str], begin: str, end: str
) -> list[Sequence[str]]:
    """Return the measured rows and the rows of the page that were not measured now.

    A row is its cells, the first of which names it. `order` has all names that a run of all rows would measure. Other
    rows of the page, such as rows of logs that are not on this machine, come last. Rows of a page with other columns
    are left out.
    """
    columns = {len(cells) for cells in measured}
    lines = PAGE.read_text(encoding="utf-8").split(begin, 1)[1].split(end, 1)[0].splitlines()
    before = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")][1:]
    kept = [cells for cells in before if len(cells) in columns and not cells[0].startswith("---")]
    found = {cells[0]: cells for cells in (*kept, *measured)}
    return [found[name] for name in dict.fromkeys((*order, *found)) if name in found]

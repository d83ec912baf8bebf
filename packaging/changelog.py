"""Move the files of changelog/unreleased into CHANGELOG.md: python packaging/changelog.py VERSION."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("added", "changed", "removed", "fixed")


def section(version: str, day: str, changes: dict[str, str]) -> str:
    """Return the section of a release; `changes` maps names of files, such as fixed-undo.md, to their texts."""
    unknown = [name for name in changes if name.partition("-")[0] not in KINDS]
    if unknown:
        raise SystemExit(f"{unknown[0]}: the name does not begin with {', '.join(KINDS)}")
    text = f"## {version} ({day})\n"
    for kind in KINDS:
        lines = [" ".join(changes[name].split()) for name in sorted(changes) if name.startswith(f"{kind}-")]
        if lines:
            text += f"\n### {kind.capitalize()}\n\n" + "".join(f"- {line}\n" for line in lines)
    return text


def release(root: Path, version: str, day: str) -> None:
    """Write the section before the newest one, and remove the files."""
    files = sorted((root / "changelog" / "unreleased").glob("*.md"))
    if not files:
        raise SystemExit("changelog/unreleased has no changes")
    changelog = root / "CHANGELOG.md"
    head, mark, rest = changelog.read_text(encoding="utf-8").partition("\n## ")
    new = section(version, day, {file.name: file.read_text(encoding="utf-8") for file in files})
    changelog.write_text(f"{head}\n{new}{mark}{rest}", encoding="utf-8")
    for file in files:
        file.unlink()


if __name__ == "__main__":
    release(ROOT, sys.argv[1], dt.date.today().isoformat())

"""The files in .mutation/: which test executes which line, and how each mutant ended."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tests.mutation.mutants import Mutant

if TYPE_CHECKING:
    from tests.mutation.runs_of_tests import CopiedTree

FIRST_TESTS, FIRST_FILES = 40, 4
"""Collecting many test files takes longer than most tests, so a few files go first."""


def digest(path: Path) -> str:
    """Return what tells two contents of a file apart."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


class TestMap:
    """The tests that execute a line, from the records of all test files."""

    __test__ = False

    def __init__(self, folder: Path) -> None:
        self.seconds: dict[str, float] = {}
        self._lines: dict[str, list[tuple[str, dict[str, list[str]]]]] = {}
        for path in sorted((folder / "map").glob("*.json")):
            record = json.loads(path.read_text())
            self.seconds |= record["seconds"]
            for source, lines in record["lines"].items():
                self._lines.setdefault(source, []).append((record["sources"][source], lines))

    @staticmethod
    def record(folder: Path, tree: CopiedTree, name: str, content: str, layers: list[str], most_seconds: float) -> str:
        """Record one test file unless its record is as new as the file; return a word for the person who waits."""
        from tests.mutation.runs_of_tests import LinesOfTests

        target = folder / "map" / (name.replace("/", "-") + ".json")
        if target.exists() and json.loads(target.read_text())["test"] == content:
            return "recorded before"
        answer = tree.run([name], LinesOfTests(layers), most_seconds)
        if not answer:
            return "left out, it takes too long or crashes"
        found = json.loads(answer)
        found |= {"test": content, "sources": {path: digest(tree.root / path) for path in found["lines"]}}
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(found))
        return f"{len(found['seconds'])} tests, not passed here: {len(found['failed'])}"

    def of(self, mutant: Mutant, source: str) -> list[str]:
        """Return the tests that execute the line.

        All tests of the file stand for a line that runs at import, and where it was recorded with another content.
        """
        today = hashlib.sha256(source.encode()).hexdigest()[:16]
        names: set[str] = set()
        for content, lines in self._lines.get(mutant.path, []):
            for line, found in lines.items():
                if content != today or mutant.runs_at_import or int(line) == mutant.line:
                    names.update(found)
        return sorted(names, key=lambda name: self.seconds[name])

    def batches(self, names: list[str], killers: Counter[str], most_seconds: float) -> Iterator[list[str]]:
        """Yield the tests to run first (those that killed before, then quick tests of few files), then the others."""
        names = sorted(names, key=lambda name: (-killers[name], self.seconds[name]))
        first: list[str] = []
        files: set[str] = set()
        others: list[str] = []
        left = most_seconds
        for name in names:
            file = name.partition("::")[0]
            if len(first) < FIRST_TESTS and (file in files or len(files) < FIRST_FILES):
                files.add(file)
                first.append(name)
                left -= self.seconds[name]
            elif self.seconds[name] <= left:
                left -= self.seconds[name]
                others.append(name)
        yield first
        if others:
            yield others


class Results:
    """How each mutant ended: lines of JSON, the last line of a mutant counts while its source file stays as it is."""

    def __init__(self, folder: Path, tree: Path) -> None:
        self._tree = tree
        self._path = folder / "results.ndjson"
        self._found: dict[tuple[str, str], str] = {}
        if self._path.exists():
            for line in self._path.read_text().splitlines():
                result = json.loads(line)
                self._found[result["key"], result["source"]] = result["verdict"]

    def of(self, mutant: Mutant) -> str:
        """Return how a mutant ended; empty if it was not run."""
        return self._found.get((mutant.key, digest(self._tree / mutant.path)), "")

    def settles(self, mutant: Mutant, again: bool) -> bool:
        """Return whether the mutant need not run: it has a result, which is not to be tried again."""
        return bool(self.of(mutant)) and not (again and not self.of(mutant).startswith(("killed", "hangs")))

    def add(self, mutant: Mutant, verdict: str) -> None:
        """Keep a result."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        result = {"key": mutant.key, "source": digest(self._tree / mutant.path), "verdict": verdict}
        self._found[result["key"], result["source"]] = verdict
        with self._path.open("a") as stream:
            stream.write(json.dumps(result) + "\n")

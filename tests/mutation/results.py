"""The files of the tool: which test executes which line (.mutation/map), and how each mutant ended (tried.txt)."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tests.mutation.mutants import Mutant

if TYPE_CHECKING:
    from tests.mutation.runs_of_tests import CopiedTree


NOT_RUN = "."
LETTERS = {"k": "killed", "s": "survive", NOT_RUN: "not run"}
_BY_WEIGHT = ".sk"
TRIED_BEGINS = """\
# How mutants ended: k killed, s survives the recorded tests, . not run: equivalent.txt has its reason, or the next `make mutation`
# tries it. Per source file, and per digest of a function without comments: a letter per mutant, in the order of the lines."""


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
        return sorted(names)

    def chosen(self, mutant: Mutant, source: str, killers: Counter[str], most_seconds: float) -> dict[str, float]:
        """Return the tests to run with their seconds: those that killed before go first, then the quick ones."""
        chosen: dict[str, float] = {}
        for name in sorted(self.of(mutant, source), key=lambda name: (-killers[name], self.seconds[name])):
            if not chosen or sum(chosen.values()) + self.seconds[name] <= most_seconds:
                chosen[name] = self.seconds[name]
        return chosen


class Results:
    """How each mutant ended, in a text file: per source file a line with digests of contents, and a letter per mutant of each.

    A letter counts while the content of the function stays: an edit elsewhere in the file changes nothing.
    """

    def __init__(self, path: Path, mutants: list[Mutant]) -> None:
        self._path = path
        self._sizes: dict[str, Counter[str]] = {}
        for mutant in mutants:
            self._sizes.setdefault(mutant.path, Counter())[mutant.content] += 1
        self._found = self._read()

    def of(self, mutant: Mutant) -> str:
        """Return how a mutant ended: a word of LETTERS."""
        return LETTERS[self._found.get(mutant.path, {}).get(mutant.content, NOT_RUN * (mutant.place + 1))[mutant.place]]

    def settles(self, mutant: Mutant, again: bool) -> bool:
        """Return whether the mutant need not run: it has a result, which is not to be tried again."""
        return self.of(mutant) != LETTERS[NOT_RUN] and (self.of(mutant) == "killed" or not again)

    def add(self, mutant: Mutant, word: str) -> None:
        """Keep a result. The file is read again first: another run may have added to it."""
        self._found = self._read()
        contents = self._found.setdefault(mutant.path, {})
        letters = list(contents.get(mutant.content, NOT_RUN * self._sizes[mutant.path][mutant.content]))
        letters[mutant.place] = {word: letter for letter, word in LETTERS.items()}[word]
        contents[mutant.content] = "".join(letters)
        self._write()

    def prune(self) -> None:
        """Remove the results of functions and files that are gone."""
        self._found = {path: contents for path, contents in self._found.items() if path in self._sizes}
        self._write()

    def _write(self) -> None:
        lines = [
            " ".join([path, *(f"{content}={letters}" for content, letters in sorted(contents.items()))])
            for path, contents in sorted(self._found.items())
            if contents
        ]
        new = self._path.with_suffix(".new")
        new.write_text("\n".join([TRIED_BEGINS, *lines, ""]))
        new.replace(self._path)

    def _read(self) -> dict[str, dict[str, str]]:
        """Return the letters per source file and content, without contents that the source files no longer have.

        A merge of two branches may leave two lines of a file: of their results, those that say more count.
        """
        found: dict[str, dict[str, str]] = {}
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        for line in lines:
            if line and not line.startswith("#"):
                path, *parts = line.split()
                pairs = (part.split("=") for part in parts)
                sizes = self._sizes.get(path)
                of_file = found.setdefault(path, {})
                for content, letters in pairs:
                    if sizes is None or len(letters) == sizes[content]:
                        both = zip(of_file.get(content, letters), letters, strict=True)
                        of_file[content] = "".join(max(pair, key=_BY_WEIGHT.index) for pair in both)
        return found

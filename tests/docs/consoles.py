"""Examples of pages: blocks of ```console, whose commands are run, and whose lines are compared with the output."""

import io
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.product import Environment, run

ROOT = Path(__file__).parents[2]
SPARK = ("sql", "export", "import")
OTHER_PROGRAMS = ("mv", "cp", "tar")
LEFT_OUT = "..."
"""A line of an example that stands for any number of lines."""
CUT = "…"
"""A part of a line that stands for any text."""

RUN_ID = re.compile(r"\b\d{8}T\d{6}\.\d{3}Z-[a-z-]+-[0-9a-f]{4}\b")
VARYING = (
    (RUN_ID, "RUN"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"), "TIME"),
    (re.compile(r", (\d+ ms|\d+(\.\d)? s|\d+:\d\d min)$"), ", DURATION"),
)
"""What differs from run to run, and the word that replaces it on both sides of a comparison."""


@dataclass(frozen=True)
class Example:
    """A command of a page, without the word kafkalog, and the lines below it."""

    page: str
    line: int
    words: tuple[str, ...]
    shown: tuple[str, ...]

    @property
    def is_of_spark(self):
        return self.words[0] in SPARK


def examples_of(page, text, *, other_programs=OTHER_PROGRAMS):
    """All examples of a page, in their order. With `other_programs` None, lines of other programs are given to a shell."""
    found = []
    is_inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            is_inside = line == "```console"
        elif is_inside and line.startswith("$ "):
            program, *words = shlex.split(line[2:])
            if other_programs is None and program != "kafkalog":
                program, words = "sh", ["-c", line[2:]]
            else:
                known = ("kafkalog", *(other_programs or ()))
                assert program in known, f"{page}:{number}: only kafkalog is run in a console block"
            words = words if program == "kafkalog" else [program, *words]
            found.append((number, tuple(words), []))
        elif is_inside:
            assert found, f"{page}:{number}: output before a command"
            found[-1][2].append(line)
    return [Example(page, number, words, tuple(shown)) for number, words, shown in found]


def pages():
    """README and the pages of docs/ that have examples: their examples, by the path of the page."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    all_of = {str(path.relative_to(ROOT)): path.read_text() for path in paths}
    return {page: found for page, text in all_of.items() if (found := examples_of(page, text))}


SLOW = '"schema":"kafkalog.progress/1"'
"""Long runs report progress, and on a busy machine an example is a long run."""


def printed_by(example, run_ids, *, with_code=False, **environment):
    """The lines of stdout and stderr. `run_ids` maps names of runs in the page to names of runs that were made.

    `with_code`: a last line says the exit code, if it is not 0. A word < is followed by the file that is the input.
    """
    if example.words[0] in (*OTHER_PROGRAMS, "sh"):
        done = subprocess.run(example.words, check=True, capture_output=True, text=True)
        return (done.stdout + done.stderr).splitlines()
    both = io.BytesIO()
    words = [RUN_ID.sub(lambda found: run_ids[found[0]], word) for word in example.words]
    if "<" in words:
        words, environment["stdin"] = words[:-2], io.BytesIO(Path(words[-1]).read_bytes())
    code = run(words, Environment(stdout=both, stderr=both, terminal=None, **environment))
    lines = [line for line in both.getvalue().decode().splitlines() if SLOW not in line]
    assert not any("internal error" in line for line in lines), lines
    run_ids.update(zip(RUN_ID.findall("\n".join(example.shown)), RUN_ID.findall("\n".join(lines)), strict=False))
    return [*lines, f"(exit code {code})"] if with_code and code else lines


def masked(line):
    for pattern, word in VARYING:
        line = pattern.sub(word, line)
    return line.rstrip()


def is_shown(shown, printed):
    """Whether the lines of a page are the printed ones, except for what varies and what is left out."""
    pattern = "".join(
        "(.*\n)*?" if line == LEFT_OUT else ".*?".join(map(re.escape, masked(line).split(CUT))) + "\n" for line in shown
    )
    return re.fullmatch(pattern, "".join(masked(line) + "\n" for line in printed)) is not None

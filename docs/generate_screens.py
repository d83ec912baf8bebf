"""Writes docs/screens/*.svg: what a terminal of 80 columns shows of commands on `kafkalog demo` and docs/example.

The commands run in this process, with a clock that counts its calls. Durations and the ends of run names are fixed, so
that the pictures stay the same until the output changes. `python docs/generate_screens.py NAME...`
writes only some of them.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

from kafkalog_cli.cli.app import run
from kafkalog_cli.cli.environment import Environment

DOCS = Path(__file__).resolve().parent
TARGET = DOCS / "screens"
COLUMNS = 80
NOW_MS = 1_795_442_400_000
"""2026-11-23T14:00:00Z, the time of the newest records of the demo."""

RUN_ID = re.compile(r"(\d{8}T\d{6}\.\d{3}Z-[a-z-]+)-[0-9a-f]{4}\b")
DURATION = re.compile(r", \d+ ms$", re.MULTILINE)
ERASED_LINE = "\r\x1b[K"


@dataclass(frozen=True)
class Screen:
    """A picture: its title, and the command lines that it shows."""

    title: str
    commands: tuple[str, ...]
    answer: str = ""
    """What the user types at a question."""


SCREENS = {
    "ls": Screen("ls: the size of each topic", ("kafkalog ls shop --topics --sort size",)),
    "verify-damaged": Screen("verify: damage, its effect, the next command", ("kafkalog verify shop",)),
    "recover": Screen(
        "recover asks before valid records are removed",
        ("rm shop/recovery-point-offset-checkpoint", "kafkalog recover shop/orders-2 --like-broker"),
        answer="y",
    ),
    "retain-explain": Screen(
        "retain: why a segment stays or is removed", ("kafkalog retain shop/orders-0 --dry-run --explain",)
    ),
    "compact-estimate": Screen(
        "compact: the gain of cleaning", ("kafkalog compact shop/customers-0 --dry-run --estimate",)
    ),
}


class Typist:
    """A terminal with a user who types the same answer to each question."""

    def __init__(self, shown: io.BytesIO, answer: str) -> None:
        self._shown, self._answer = shown, answer

    def answer(self, question: str, poll: Callable[[], None]) -> str:
        """Show the question and the answer."""
        poll()
        self._shown.write(f"{question}{self._answer}\n".encode())
        return f"{self._answer}\n"


class TerminalBytes(io.BytesIO):
    """Output that counts as a terminal's."""

    def isatty(self) -> bool:
        """Say that a user looks at it."""
        return True


def shown_by(screen: Screen) -> str:
    """Run the commands of a screen in a fresh directory; return everything that the terminal gets."""
    parts = []
    variables = {name: os.environ.pop(name, None) for name in ("NO_COLOR", "COLUMNS", "TERM")}
    os.environ.update(COLUMNS=str(COLUMNS), TERM="xterm-256color")
    try:
        with tempfile.TemporaryDirectory() as folder, _inside(folder):
            _make_logs()
            for line in screen.commands:
                both = TerminalBytes()
                clock = count()
                environment = Environment(
                    stdout=both,
                    stderr=both,
                    now_ms=lambda: NOW_MS,
                    clock=lambda clock=clock: next(clock) * 0.001,
                    terminal=Typist(both, screen.answer),
                )
                program, *words = shlex.split(line)
                parts.append(f"\x1b[1m$ {line}\x1b[0m")
                if program == "rm":
                    Path(words[0]).unlink()
                    continue
                run(words, environment)
                parts += _last_writes(both.getvalue().decode())
    finally:
        for name in ("COLUMNS", "TERM"):
            os.environ.pop(name)
        os.environ.update({name: value for name, value in variables.items() if value is not None})
    return DURATION.sub(", 40 ms", RUN_ID.sub(r"\1-91ac", "\n".join(parts)))


@contextmanager
def _inside(folder: str) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _make_logs() -> None:
    shutil.copytree(DOCS / "example", "docs/example")
    printed = io.BytesIO()
    code = run(["demo", "shop"], Environment(stdout=printed, stderr=printed, now_ms=lambda: NOW_MS))
    if code:
        raise RuntimeError(f"demo ended with {code}: {printed.getvalue().decode()}")
    for path in Path("shop").rglob("*"):  # files that are newer than the clock are warned of
        if path.stat().st_mtime > NOW_MS / 1000:
            os.utime(path, (NOW_MS / 1000, NOW_MS / 1000))


def _last_writes(shown: str) -> list[str]:
    """Return the lines, each overwritten line as it was written last."""
    return [line.rpartition(ERASED_LINE)[2] for line in shown.removesuffix("\n").split("\n")]


def lines_of(screen: Screen) -> list[Text]:
    """Return the lines of the screen; a terminal breaks a line that is too long at its last column."""
    lines = []
    for line in shown_by(screen).split("\n"):
        text = Text.from_ansi(line)
        lines += text.divide(range(COLUMNS, len(text.plain), COLUMNS)) if len(text.plain) > COLUMNS else [text]
    return lines


def render(name: str) -> str:
    """Return the picture of a screen as SVG."""
    screen = SCREENS[name]
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in lines_of(screen):
        console.print(line, no_wrap=True, overflow="ignore", crop=False, highlight=False)
    picture = console.export_svg(title=screen.title, theme=SVG_EXPORT_THEME, unique_id=f"screen-{name}")
    without_fonts = re.sub(r"\s*@font-face \{.*?\}", "", picture, flags=re.DOTALL)  # they come from a network
    return "".join(f"{line.rstrip()}\n" for line in without_fonts.splitlines())


def main() -> None:
    """Write the pictures named in the arguments, or all."""
    TARGET.mkdir(exist_ok=True)
    for name in sys.argv[1:] or SCREENS:
        (TARGET / f"{name}.svg").write_text(render(name))


if __name__ == "__main__":
    main()

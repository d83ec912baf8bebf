"""Tables and paragraphs on a terminal: widths of characters, breaks, and that no character is lost."""

import io
import random
import re
from collections import Counter
from itertools import chain
from operator import itemgetter

from kafkalog_cli.output.human import Column, write_table
from kafkalog_cli.output.stream import Paint, ResultStream, columns_of
from tests.support.commands import Terminal

ESCAPE = re.compile(r"\x1b\[[0-9;]*[mK]")


def test_wide_characters_have_two_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    rows = (("注文の主題", "1"), ("e\u0301te\u0301", "22"), ("ascii", "333"))
    columns = Column("GROUP", itemgetter(0)), Column("N", itemgetter(1), is_number=True)
    for stream in (io.BytesIO(), Terminal()):
        out = ResultStream(stream)
        write_table(out, columns, rows)
        out.flush()
        lines = ESCAPE.sub("", stream.getvalue().decode()).splitlines()
        assert [columns_of(line.rstrip()) for line in lines] == [15] * 4
    text = "注文 " * 12
    assert all(columns_of(line) <= 20 for line in Paint(width=20).wrapped(text.strip()).split("\n"))


def test_a_number_stays_with_its_unit():
    text = "segments, 15 KiB, files of 12 bytes (7.3 KiB), and it took 40 ms"
    for width in range(20, len(text)):
        lines = Paint(width=width).wrapped(text).split("\n")
        assert not any(re.search(r"\d$", line) for line in lines), lines


def test_no_character_of_a_table_is_lost(monkeypatch):
    """A terminal that is too narrow breaks cells. rich cuts a table that is wider than the terminal."""
    draw = random.Random(5)
    for _ in range(300):
        columns = [
            Column("T" * draw.randint(1, 15), itemgetter(at), is_number=draw.random() < 0.3)
            for at in range(draw.randint(1, 7))
        ]
        rows = [["".join(draw.choices("abc-/.7", k=draw.choice((3, 9, 16, 40)))) for _ in columns] for _ in range(3)]
        width = draw.randint(8 * len(columns) + 10, 120)
        monkeypatch.setenv("COLUMNS", str(width))
        stream = Terminal()
        out = ResultStream(stream)
        write_table(out, columns, rows)
        out.flush()
        text = ESCAPE.sub("", stream.getvalue().decode())
        wanted = Counter("".join(chain((column.title for column in columns), *rows)))
        assert Counter(text.replace(" ", "").replace("\n", "")) == wanted, (width, text)
        assert all(columns_of(line) <= width for line in text.splitlines())

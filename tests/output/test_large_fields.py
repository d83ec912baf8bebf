"""A large record is rendered piece by piece, and its text is that of a record that is rendered whole."""

import io
import random
from pathlib import Path

import pytest

from kafkalog_cli.cli.app import run
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.format.java_text import java_string
from kafkalog_cli.output import large_fields
from kafkalog_cli.output.large_fields import java_pieces, pieces, utf8_pieces

TEXTS = (
    b"",
    b"abc",
    "äöü€𝄞".encode() * 9,
    b'\x00\x1f\x7f"\\\n',
    b"\xff\xfe",
    b"\xe2\x82",
    b"\x80" * 20,
    b"\xf0\x90\x80",
)


def some_bytes(seed):
    rng = random.Random(seed)
    alphabet = [b"a", b"\xc3", b"\xa9", b"\xe2", b"\x82", b"\xac", b"\xf0", b"\x9d", b"\x84", b"\xed\xa0\x80", b"\x00"]
    return b"".join(rng.choice(alphabet) for _ in range(rng.randrange(40)))


@pytest.mark.parametrize("size", [3, 6, 9])
def test_pieces_make_up_the_whole(size, monkeypatch):
    monkeypatch.setattr(large_fields, "PIECE_BYTES", size)
    for data in (*TEXTS, *map(some_bytes, range(2000))):
        view = memoryview(data)
        assert b"".join(pieces(view)) == b"".join(utf8_pieces(view)) == data
        assert "".join(java_pieces(view)) == java_string(data)


EXAMPLE = Path(__file__).parents[2] / "docs/example"
COMMANDS = (
    ("read",),
    ("read", "--print", "timestamp,partition,offset,epoch,headers,key,value"),
    ("read", "--print", "key"),
    ("lookup-offset", "3"),
)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("partition", "is_compiled"), [("mixed-0", False), ("mixed-1", False), ("levels-0", False), ("mixed-0", True)]
)
def test_every_output_is_the_same_where_all_records_count_as_large(partition, is_compiled, monkeypatch):
    def output(command):
        out, errors = io.BytesIO(), io.BytesIO()
        environment = Environment(stdout=out, stderr=errors, kernels=KernelChoice(forced=is_compiled))
        argv = [command[0], str(EXAMPLE / partition), *command[1:]]
        return run(argv, environment), out.getvalue(), errors.getvalue()

    whole = [output(command) for command in COMMANDS]
    assert all(code in (0, 1) for code, _, _ in whole)
    monkeypatch.setattr(large_fields, "LARGE_BYTES", -1)
    monkeypatch.setattr(large_fields, "PIECE_BYTES", 6)
    for command, expected in zip(COMMANDS, whole, strict=True):
        assert output(command) == expected, command

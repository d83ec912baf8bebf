"""One record, or its headers, that take all that a batch may hold: every output stays below the bound of memory."""

import sys

import pytest

from tests.damage.makers import GZIP, LZ4, MEBIBYTE, batch, record, wrapper
from tests.damage.peaks import peaks

MOST_MEBIBYTES = 300
LOG = "00000000000000000000.log"
LARGE = 110 * MEBIBYTE
READ, READ_JSON = ("read",), ("read", "--format", "json")
DUMP = ("dump-log", "--deep-iteration", "--print-data-log")
DUMP_JSON = (*DUMP, "--format", "json")
DEEP = ("verify", "--level", "deep")
LOOKUPS = (
    ("lookup-offset", "0"),
    ("lookup-offset", "0", "--format", "json"),
    ("lookup-time", "--max-timestamp", "--format", "json"),
)
BOMBS = {
    "value": (lambda: batch(0, [record(0, b"k", b"a" * LARGE)], codec=GZIP), (READ, DUMP, *LOOKUPS)),
    "key": (lambda: batch(0, [record(0, bytes(LARGE), b"v")], codec=GZIP), (READ_JSON, DUMP)),
    "header": (lambda: batch(0, [record(0, b"k", b"v", [(b"h", bytes(LARGE))])], codec=LZ4), (READ, DUMP_JSON)),
    "v1": (lambda: wrapper(0, [(b"k", bytes(LARGE))], magic=1, codec=GZIP), (READ_JSON, DEEP)),
}


@pytest.mark.exhaustive
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is in KiB on Linux")
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_record_of_the_largest_size_stays_within_the_memory_limit_in_every_output(bomb, tmp_path):
    partition = tmp_path / "t-0"
    partition.mkdir()
    make, commands = BOMBS[bomb]
    (partition / LOG).write_bytes(make())
    found = peaks([(command[0], str(partition), *command[1:]) for command in commands])
    assert len(found) == len(commands)
    for command, (code, peak) in zip(commands, found, strict=True):
        assert code in (0, 3), command
        assert peak < MOST_MEBIBYTES, (command, peak)

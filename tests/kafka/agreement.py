"""One command line of dump-log through ours and the real tool: where they have to agree."""

from typing import NamedTuple

from tests.support.commands import kafkalog
from tests.support.product_kafka import NEWEST


class Ran(NamedTuple):
    stdout: bytes
    stderr: bytes
    code: int


def run_ours(argv, version=NEWEST):
    """`version`: the KafkaVersion whose text is wanted."""
    words = ("dump-log", "--kafka-version", version.value, *argv)
    code, out, err = kafkalog(*words, errors="surrogateescape")
    return Ran(out.encode(errors="surrogateescape"), err.encode(errors="surrogateescape"), code)


def assert_agree(argv, ours, real):
    """Everything the same; where the real tool aborts, what it printed before, and a word of ours about it.

    It leaves out the files after one at which it aborts; we do not. That its heap is too small for a length that lies
    says nothing of the file: Java takes memory for the claim before it looks whether the bytes are there.
    """
    assert b"Traceback" not in ours.stderr
    assert b"internal error" not in ours.stderr
    if b"OutOfMemoryError" in real.stderr:
        assert ours.stdout.startswith(real.stdout), argv
        return
    assert ours.code == real.code, argv
    if real.code == 0:
        assert ours == real, argv
        return
    several = "," in argv[1]
    assert ours.stdout.startswith(real.stdout) if several else ours.stdout == real.stdout, argv
    assert ours.stderr.startswith(b"kafkalog: "), argv

"""`dump-log --kafka-version`: the newest text unless 4.2 is asked for."""

import struct

import pytest

from tests.support.commands import kafkalog
from tests.support.logs import R, batch_v2, message, write_segment


def dump(*argv):
    return kafkalog("dump-log", *argv)


@pytest.fixture
def segment(tmp_path):
    path = tmp_path / f"{7:020d}.log"
    path.write_bytes(message(R(7, 1, None, b"old"), 1) + batch_v2([R(9, 1, None, b"v"), R(4, 1, b"k", None)], last=9))
    return path


def test_the_versions_differ_as_the_tools_do(segment):
    """What each prints is compared with the real tools in tests/golden and tests/kafka."""
    _, newest, gaps = dump("--files", segment, "--print-data-log", "--skip-record-metadata")
    _, scala, scala_gaps = dump(
        "--kafka-version", "4.2", "--files", segment, "--print-data-log", "--skip-record-metadata"
    )
    assert ("\n| payload: v\n" in newest, "\n payload: v\n" in scala) == (True, True)
    assert gaps.splitlines()[1] == "  -1 is followed by 7"
    assert "-1 is followed by" not in scala_gaps
    assert "}" not in dump("--files", segment, "--deep-iteration")[1]
    assert "}" in dump("--files", segment, "--deep-iteration", "--kafka-version", "4.2")[1]


def test_the_version_is_printed():
    assert dump("--version") == (0, "4.4.0\n", "")
    assert dump("--kafka-version", "4.2", "--version") == (0, "4.2.0\n", "")
    assert dump("--kafka-version", "4.2.1", "--version") == (0, "4.2.0\n", "")
    assert dump("--version", "--kafka-version", "4.2") == (0, "4.2.0\n", "")
    assert dump("--version", "--kafka-version=4.3") == (0, "4.3.1\n", "")
    code, _, err = dump("--version", "--kafka-version", "4.9")
    assert (code, "4.2, 4.3, 4.4" in err) == (2, True)


@pytest.mark.parametrize("text", ["4.1", "4.20", "4.2.", "4.2.x", "4", ""])
def test_other_versions_are_refused(segment, text):
    code, out, err = dump("--kafka-version", text, "--files", segment)
    assert (code, out) == (2, "")
    assert "the known versions are 4.2, 4.3, 4.4" in err


@pytest.mark.parametrize(("text", "same"), [("4.4.0", "4.4"), ("4.3.1", "4.3"), ("4.2.0", "4.2")])
def test_a_release_stands_for_its_version(segment, text, same):
    argv = ("--files", segment, "--print-data-log", "--kafka-version")
    assert dump(*argv, text) == dump(*argv, same)


@pytest.mark.parametrize("options", [[], ["--verify-index-only"]])
def test_4_3_follows_the_whole_log_for_a_time_index(tmp_path, options):
    """Both tools find the batch of the entry; the newer one has read the sizes of all batches before it looks."""
    batches = [(batch_v2([R(at, 1000 + at, b"k", b"v")]), at, 1000 + at) for at in range(7, 10)]
    write_segment(tmp_path, 7, batches, 0)
    name = tmp_path / f"{7:020d}"
    assert name.with_suffix(".timeindex").read_bytes()[-12:] == struct.pack(">qi", 1009, 2)
    with name.with_suffix(".log").open("ab") as log:
        log.write(bytes(100))
    argv = ("--files", name.with_suffix(".timeindex"), *options)
    newest, scala = dump(*argv), dump("--kafka-version", "4.2", *argv)
    assert (newest[0], scala[0]) == (1, 0)
    assert "Found record size 0 smaller than minimum record overhead (14)" in newest[2]
    assert ("timestamp: 1009 offset: 9\n" in scala[1], "timestamp:" in newest[1]) == (not options, False)

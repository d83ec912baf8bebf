"""`dump-log --kafka-version`: the newest text unless 4.2 is asked for."""

import io

import pytest
from logs import R, batch_v2, message

from kafkalog_cli.cli.app import run
from kafkalog_cli.cli.environment import Environment


def dump(*argv):
    stdout, stderr = io.BytesIO(), io.BytesIO()
    code = run(["dump-log", *map(str, argv)], Environment(stdout=stdout, stderr=stderr))
    return code, stdout.getvalue().decode(), stderr.getvalue().decode()


@pytest.fixture
def segment(tmp_path):
    path = tmp_path / f"{7:020d}.log"
    path.write_bytes(message(R(7, 1, None, b"old"), 1) + batch_v2([R(9, 1, None, b"v"), R(4, 1, b"k", None)], last=9))
    return path


def test_the_versions_differ_as_the_tools_do(segment):
    """What each prints is compared with the real tools in tests/golden and tests/interop."""
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
    assert dump("--version") == (0, "4.3.1\n", "")
    assert dump("--kafka-version", "4.2", "--version") == (0, "4.2.0\n", "")
    assert dump("--kafka-version", "4.2.1", "--version") == (0, "4.2.0\n", "")
    assert dump("--version", "--kafka-version", "4.2") == (0, "4.2.0\n", "")
    assert dump("--version", "--kafka-version=4.3") == (0, "4.3.1\n", "")
    code, _, err = dump("--version", "--kafka-version", "4.9")
    assert (code, "4.2 and 4.3" in err) == (2, True)


@pytest.mark.parametrize("text", ["4.1", "4.20", "4.2.", "4.2.x", "4", ""])
def test_other_versions_are_refused(segment, text):
    code, out, err = dump("--kafka-version", text, "--files", segment)
    assert (code, out) == (2, "")
    assert "dump-log has the texts of 4.2 and 4.3" in err


@pytest.mark.parametrize(("text", "same"), [("4.3.1", "4.3"), ("4.2.0", "4.2")])
def test_a_release_stands_for_its_version(segment, text, same):
    argv = ("--files", segment, "--print-data-log", "--kafka-version")
    assert dump(*argv, text) == dump(*argv, same)

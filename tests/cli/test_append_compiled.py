"""`kafkalog append` of more than one piece of NDJSON: compiled kernels and a thread ahead write what plain ones do."""

import json
import shutil
import threading

import pytest

from tests.cli.test_append import ANY_TIME, NOW, kafkalog, tree
from tests.support.logs import BASE_TIME_MS
from tests.support.product import KernelChoice

LINES = [
    json.dumps({"key": f"k{at % 500}", "value": "vä" * (at % 90), "timestamp_ms": BASE_TIME_MS + at}).encode()
    for at in range(24_000)
]


@pytest.fixture(scope="module")
def text():
    found = b"\n".join(LINES) + b"\n"
    assert len(found) > 3 << 20
    return found


@pytest.fixture
def two(corpus, tmp_path):
    """The same partition twice."""
    for name in ("plain", "compiled"):
        shutil.copytree(corpus / "txn" / "data" / "idem-0", tmp_path / name / "idem-0")
        (tmp_path / name / "idem-0").chmod(0o755)
        for path in (tmp_path / name / "idem-0").iterdir():
            path.chmod(0o644)
    return tmp_path / "plain" / "idem-0", tmp_path / "compiled" / "idem-0"


def data(partition):
    return {name: found[0] for name, found in tree(partition).items()}


@pytest.mark.exhaustive
@pytest.mark.parametrize("piped", [False, True])
def test_the_same_bytes(two, text, tmp_path, piped):
    source = tmp_path / "records"
    source.write_bytes(text)
    for partition, forced in zip(two, (False, True), strict=True):
        options = (*NOW, *ANY_TIME, "--config", "internal.segment.bytes=700000", "--config", "flush.messages=9000")
        files, stdin = ((), text) if piped else ((source,), b"")
        code, out, err = kafkalog(
            "append", partition, *files, *options, stdin=stdin, kernels=KernelChoice(forced=forced)
        )
        assert code == 0, err
        assert "24000 records" in out
    assert data(two[0]) == data(two[1])
    assert len([name for name in data(two[0]) if name.endswith(".log")]) > 3


@pytest.mark.parametrize("at", [3, 12_345, 23_999])
def test_a_wrong_line_has_its_number_and_nothing_is_changed(two, at, tmp_path):
    source, partition = tmp_path / "records", two[1]
    source.write_bytes(b"\n".join([*LINES[:at], b'{"key":5}', *LINES[at + 1 :]]))
    before = tree(partition)
    code, out, err = kafkalog("append", partition, source, *NOW, *ANY_TIME, kernels=KernelChoice(forced=True))
    assert (code, out) == (2, "")
    assert f"{source}: line {at + 1}: key must be" in err
    assert tree(partition) == before
    assert not [thread for thread in threading.enumerate() if thread.name == "kafkalog-append"]

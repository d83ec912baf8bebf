"""Files of text that are far too large: each is refused by its name before it is read, and memory stays what it was.

Each file has 2 GiB in one line, and is a hole but for its beginning.
"""

# ruff: noqa: F811 - `place` is a fixture

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.attacks.test_links import PARTITION, place  # noqa: F401
from tests.support.product import IN_A_PROCESS, RealFilesystem
from tests.support.product_journal import FileKind, LineEdit, change_lines

SIZE_BYTES = 2 << 30
MOST_CHECKPOINT_BYTES, MOST_PROPERTIES_BYTES, MOST_DOCUMENT_BYTES = 8 << 20, 1 << 20, 32 << 20
MOST_INPUT_LINE_BYTES = 64 << 20
MOST_RSS_BYTES = 300 << 20
ROOT = {
    "recovery-point-offset-checkpoint": MOST_CHECKPOINT_BYTES,
    "replication-offset-checkpoint": MOST_CHECKPOINT_BYTES,
    "log-start-offset-checkpoint": MOST_CHECKPOINT_BYTES,
    "cleaner-offset-checkpoint": MOST_CHECKPOINT_BYTES,
    "meta.properties": MOST_PROPERTIES_BYTES,
    ".kafka_cleanshutdown": MOST_PROPERTIES_BYTES,
    ".kafkalog-import": MOST_DOCUMENT_BYTES,
    ".kafkalog-clean-shutdown": MOST_DOCUMENT_BYTES,
    f"{PARTITION}/leader-epoch-checkpoint": MOST_CHECKPOINT_BYTES,
    f"{PARTITION}/partition.metadata": MOST_PROPERTIES_BYTES,
}
MEASURED = f"""
import sys
{IN_A_PROCESS}
codes = []
for words in sys.argv[1].split(";"):
    codes.append(run(words.split()))
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))  # ru_maxrss has the parent's, too
print("rss", int(peak.split()[1]) << 10, codes, file=sys.stderr)
"""


def measured(*commands):
    """(stderr, bytes of memory at most) of command lines, one after the other in one process."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, ";".join(commands)],
        capture_output=True,
        text=True,
        check=False,
        errors="replace",
    )
    assert "internal error" not in done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    text, _, last = done.stderr.rpartition("rss ")
    return done.stdout + text, int(last.split()[0])


def large(path):
    path.unlink(missing_ok=True)
    path.write_bytes(b"0")
    os.truncate(path, SIZE_BYTES)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ROOT)
def test_readers_of_a_hugely_sparse_file_in_a_log_directory_stay_within_the_memory_limit(place, name, evidence):
    large(place / "ld" / name)
    logs, partition = f"{place}/ld", f"{place}/ld/{PARTITION}"
    commands = [f"verify {logs}", f"ls {logs}", f"recover {partition}", f"roll {partition} --force"]
    text, peak = measured(*commands)
    if name != ".kafkalog-clean-shutdown":  # beside a marker it does not count
        assert f"{SIZE_BYTES} bytes" in text, text
        assert str(ROOT[name]) in text, text
    assert peak < MOST_RSS_BYTES, peak >> 20
    assert (place / "ld" / name).stat().st_size == SIZE_BYTES or "recover" in name or name.endswith("epoch-checkpoint")
    evidence("R33", 1, len(ROOT) + 3)


def test_commands_given_a_huge_settings_file_stay_within_the_memory_limit(place, evidence):
    large(place / "server.properties")
    text, peak = measured(f"retain {place}/ld/{PARTITION} --dry-run --broker-config {place}/server.properties")
    assert f"{SIZE_BYTES} bytes" in text
    assert peak < MOST_RSS_BYTES, peak >> 20
    evidence("R33", 1, len(ROOT) + 3)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["ndjson", "lines"])
def test_append_and_import_of_a_huge_line_stay_within_the_memory_limit(place, kind, evidence):
    large(place / "in")
    text, peak = measured(
        f"recover {place}/ld/{PARTITION}", f"append {place}/ld/{PARTITION} {place}/in --single-replica --input {kind}"
    )
    assert f"line 1: it has more than {MOST_INPUT_LINE_BYTES} bytes" in text
    assert peak < MOST_RSS_BYTES, peak >> 20
    evidence("R33", 1, len(ROOT) + 3)


def test_no_line_of_a_checkpoint_is_lost_that_is_larger_than_what_is_read(place):
    """Before, its first 64 MiB were read, and the file was written anew without the other lines."""
    path = place / "ld/recovery-point-offset-checkpoint"
    count = MOST_CHECKPOINT_BYTES // 10
    path.write_bytes(b"0\n%d\n" % count + b"".join(b"t%06d 0 1\n" % number for number in range(count)))
    size = path.stat().st_size
    assert size > MOST_CHECKPOINT_BYTES
    with pytest.raises(Exception, match=f"it has {size} bytes"):
        change_lines(RealFilesystem(), f"{place}/ld", [LineEdit(FileKind.RECOVERY_POINT_CHECKPOINT, "t000001", 0, 5)])
    assert path.stat().st_size == size


def test_the_memory_measurement_sees_a_file_read_as_a_whole(tmp_path):
    """The harness sees memory: a file of 400 MiB that is read as a whole is more than the limit."""
    Path(tmp_path / "x").write_bytes(b"")
    done = subprocess.run(
        [sys.executable, "-c", "x = b'x' * (400 << 20)\n" + MEASURED, "ls /nowhere"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert int(done.stderr.rpartition("rss ")[2].split()[0]) > MOST_RSS_BYTES

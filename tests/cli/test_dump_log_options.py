"""dump-log's own way with options: what jopt-simple allows, directories, strictness, closed pipes."""

import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import kafkalog
from tests.support.logs import BASE_TIME_MS, R, batch_v2
from tests.support.product import Environment, run

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "example"
SEGMENT = str(EXAMPLE / "mixed-0" / "00000000000000000000.log")


def dump(*argv):
    return kafkalog("dump-log", *argv)


@pytest.mark.parametrize("option", ["--key-decoder-class", "--value-decoder-class"])
def test_a_decoder_option_may_stand_alone(option):
    expected = dump("--files", SEGMENT, "--print-data-log")
    assert dump("--files", SEGMENT, option) == expected
    assert dump(option, "--files", SEGMENT) == expected
    assert dump(option, "--deep-iteration", "--files", SEGMENT) == expected


def test_a_decoder_option_takes_the_next_word():
    code, out, _ = dump("--files", SEGMENT, "--value-decoder-class", "hex")
    assert code == 0
    assert "payload: 6b65793a206e61c3af7665" in out
    assert dump("--files", SEGMENT, "--value-decoder-class=hex")[1] == out


def test_a_word_that_begins_as_a_comment_does_stays_as_it_is(tmp_path):
    """Only a query of `sql` begins with one."""
    (tmp_path / "orders-0").mkdir()
    data = batch_v2([R(0, BASE_TIME_MS, b"-- k", b"v"), R(1, BASE_TIME_MS, b" -- k", b"v")])
    (tmp_path / "orders-0" / f"{0:020d}.log").write_bytes(data)
    code, out, _ = dump(str(tmp_path), "--key", "-- k", "--print-data-log")
    assert (code, out.count("| offset: 0 "), out.count("| offset: 1 ")) == (0, 1, 0)


def test_options_cannot_be_abbreviated():
    assert dump("--file", SEGMENT)[0] == 2


def test_files_splits_at_commas_and_paths_do_not(tmp_path):
    odd = tmp_path / "a,b-0"
    odd.mkdir()
    shutil.copy(SEGMENT, odd)
    other = str(EXAMPLE / "mixed-1" / "00000000000000000000.log")
    code, out, _ = dump("--files", f"{SEGMENT},{other}")
    assert (code, out.count("Dumping ")) == (0, 2)
    code, out, _ = dump(str(odd))
    assert code == 0
    assert out.startswith(f"Dumping {odd}/00000000000000000000.log\n")


def test_a_log_directory_is_its_partitions_in_order():
    code, out, _ = dump(str(EXAMPLE))
    dumped = [line.split("/")[-2] for line in out.splitlines() if line.startswith("Dumping ")]
    assert code == 0
    assert dumped == ["levels-0", "mixed-0", "mixed-1"]


def test_help_goes_to_stdout_with_0_and_no_files_is_usage():
    code, out, err = dump("--help")
    assert code == 0
    assert "--files" in out
    assert err == ""
    assert dump()[0] == 2
    assert dump("--max-bytes", "x", "--files", SEGMENT)[0] == 2


def test_a_missing_path_and_an_empty_selection_are_10(tmp_path):
    assert dump(str(tmp_path / "gone"))[0] == 10
    assert dump(str(tmp_path))[0] == 10
    assert dump(str(tmp_path / "*.log"))[0] == 10


def test_damage_ends_its_file_only_and_the_code_is_1(tmp_path):
    damaged = tmp_path / "00000000000000000000.log"
    data = Path(SEGMENT).read_bytes()
    damaged.write_bytes(data[:273] + bytes(100))
    code, out, err = dump("--files", f"{damaged},{SEGMENT}")
    assert code == 1
    assert out.count("Dumping ") == 2
    assert f"{damaged}: at byte 273: Found record size 0" in err
    assert out.endswith(dump("--files", SEGMENT)[1])


def test_strict_tells_tail_damage_from_corruption(tmp_path):
    data = Path(SEGMENT).read_bytes()
    file = tmp_path / "00000000000000000000.log"
    file.write_bytes(data[:-5])
    assert dump("--files", str(file))[0] == 0
    assert dump("--strict", "--files", str(file))[0] == 3
    flipped = bytearray(data)
    flipped[200] ^= 1
    file.write_bytes(flipped)
    assert dump("--files", str(file))[0] == 0
    assert dump("--strict", "--files", str(file))[0] == 4
    assert dump("--strict", "--files", SEGMENT)[0] == 0


def test_resync_goes_on_behind_damage(tmp_path):
    data = bytearray(Path(SEGMENT).read_bytes())
    data[273:300] = bytes(27)
    file = tmp_path / "00000000000000000000.log"
    file.write_bytes(data)
    code, out, err = dump("--files", str(file))
    assert code == 1
    assert out.count("baseOffset:") == 1
    code, out, err = dump("--resync", "--files", str(file))
    whole = dump("--files", SEGMENT)[1]
    assert code == 1
    assert out.count("baseOffset:") == whole.count("baseOffset:") - 1
    assert "skipped 284 bytes" in err


def test_a_closed_pipe_is_no_error():
    command = f"{sys.executable} -m kafkalog_cli dump-log {EXAMPLE} --print-data-log | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.startswith("Dumping ")
    assert done.stderr == ""


def test_control_characters_reach_no_terminal(tmp_path):
    class Terminal(io.BytesIO):
        def isatty(self):
            return True

    stdout = Terminal()
    assert run(["dump-log", "--files", SEGMENT, "--print-data-log"], Environment(stdout=stdout)) == 0
    text = stdout.getvalue().decode()
    assert "\t" not in text
    assert "and\\ttab" in text
    assert "\t" in dump("--files", SEGMENT, "--print-data-log")[1]


def test_json_stays_json_behind_damage(tmp_path):
    data = bytearray(Path(SEGMENT).read_bytes())
    data[273:300] = bytes(27)
    file = tmp_path / "00000000000000000000.log"
    file.write_bytes(data)
    code, out, err = dump("--resync", "--format", "json", "--files", str(file))
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 1
    assert lines[-1]["type"] == "summary"
    assert lines[-1]["exit_code"] == 1
    assert [json.loads(line)["type"] for line in err.splitlines()] == ["error"]


def test_max_records_limits_the_gaps_that_are_reported(tmp_path):
    log = tmp_path / f"{0:020d}.log"
    log.write_bytes(b"".join(batch_v2([R(offset, BASE_TIME_MS, b"k", b"v")]) for offset in (0, 2, 4, 6)))
    _, out, err = dump("--files", str(log), "--print-data-log", "--max-records", "2")
    assert [line for line in (out + err).splitlines() if "is followed by" in line] == ["  0 is followed by 2"]

"""Where a broker would answer a question about time otherwise, it is said: what it believes is not always so."""

import json
import os
import struct

import pytest

from tests.support.commands import json_of, kafkalog
from tests.support.logs import BASE_TIME_MS, R, batch_v2, write_segment

OLD_MS = 1_000_000_000_000


@pytest.fixture
def root(tmp_path):
    """The log directory of a broker that stopped cleanly."""
    (tmp_path / "t-0").mkdir()
    (tmp_path / ".kafka_cleanshutdown").write_bytes(b'{"version":0,"brokerEpoch":1}')
    return tmp_path


def segment(root, base, times, interval=0):
    """A segment of one-record batches; its files are older than any record."""
    made = [R(base + i, BASE_TIME_MS + time) for i, time in enumerate(times)]
    write_segment(root / "t-0", base, [(batch_v2([r]), r.offset, r.timestamp) for r in made], interval)
    for suffix in (".log", ".index", ".timeindex"):
        os.utime(path(root, base, suffix), (OLD_MS // 1000, OLD_MS // 1000))


def path(root, base, suffix):
    return root / "t-0" / f"{base:020d}{suffix}"


def cut(file, size):
    file.write_bytes(file.read_bytes()[:size])


def looked(root, *question):
    """(true offset or None, what a broker answers instead, or what kind of error)."""
    code, out, err = json_of("lookup-time", root / "t-0", *question)
    found = [one for one in out if one["type"] == "lookup"]
    if not found:
        assert (code, err[0]["kind"]) == (1, "AfterLastTime")
        return None, "same"
    (answer,) = found
    if answer["broker_offset"] is None and not any("a broker" in note for note in answer["notes"]):
        return answer["record"]["offset"], "same"
    return answer["record"]["offset"], "error" if answer.get("broker_error") else answer["broker_offset"]


def by_time(root, time):
    return looked(root, BASE_TIME_MS + time)


def largest(root):
    return looked(root, "--max-timestamp")


def latest(root):
    return call("lookup-time", root / "t-0", "--latest")[1].splitlines()[0]


def test_sound_indexes_give_no_note(root):
    segment(root, 0, [0, 10, 20])
    segment(root, 3, [30, 40])
    assert by_time(root, 15) == (2, "same")
    assert by_time(root, 25) == (3, "same")
    assert by_time(root, 41) == (None, "same")
    assert largest(root) == (4, "same")


def test_a_time_index_that_lost_its_tail_hides_records(root):
    segment(root, 0, [0, 10, 20, 30])
    segment(root, 4, [40, 50])
    cut(path(root, 0, ".timeindex"), 12)
    assert by_time(root, 20) == (2, 4)
    assert by_time(root, 10) == (1, "same")
    cut(path(root, 4, ".timeindex"), 12)
    assert largest(root) == (5, "same")  # one entry says 50: the first batch needs none


def test_indexes_that_a_broker_rebuilds_at_its_start_give_no_other_answer(root):
    segment(root, 0, [0, 10, 20, 30])
    segment(root, 4, [40, 50, 60])
    for base in (0, 4):
        cut(path(root, base, ".timeindex"), 12)
    assert by_time(root, 20) == (2, 4)
    assert by_time(root, 60) == (6, -1)
    (root / ".kafka_cleanshutdown").unlink()
    assert by_time(root, 60) == (6, "same")  # a copy of a partition alone: the last segment was being written
    assert by_time(root, 20) == (2, 4)
    (root / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 3\n")
    assert by_time(root, 20) == (2, "same")  # recovered from the segment that holds the recovery point on
    (root / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 4\n")
    assert by_time(root, 20) == (2, 4)
    path(root, 0, ".index").unlink()
    assert by_time(root, 20) == (2, "same")  # without an offset index both are rebuilt


def test_without_a_time_index_the_time_of_the_file_stands_in(root):
    segment(root, 0, [0, 10])
    segment(root, 2, [20, 30])
    path(root, 0, ".timeindex").unlink()
    assert by_time(root, 5) == (1, 2)
    os.utime(path(root, 0, ".log"), (4_000_000_000, 4_000_000_000))
    assert by_time(root, 5) == (1, "same")
    assert by_time(root, 25) == (3, -1)  # it does not go on to the next segment


def test_only_one_segment_is_looked_into(root):
    segment(root, 0, [1000, 10])
    segment(root, 2, [500])
    assert by_time(root, 300) == (0, "same")
    (root / "log-start-offset-checkpoint").write_text("0\n1\nt 0 1\n")
    assert by_time(root, 300) == (2, -1)


def test_lookup_time_reports_that_a_wrong_index_position_misleads_a_broker(root):
    segment(root, 0, [0, 10, 20, 30], interval=0)
    index = path(root, 0, ".index")
    size = len(batch_v2([R(0, 0)]))
    index.write_bytes(struct.pack(">ii", 1, 3 * size))
    assert by_time(root, 20) == (2, 3)
    index.write_bytes(struct.pack(">ii", 1, -7))
    assert by_time(root, 20) == (2, "error")
    index.write_bytes(struct.pack(">ii", 1, size))
    assert by_time(root, 20) == (2, "same")


def test_zeros_behind_the_entries_of_a_clean_log_are_entries_to_a_broker(root):
    segment(root, 0, [0, 10, 20])
    segment(root, 3, [30])
    with path(root, 0, ".timeindex").open("ab") as file:
        file.write(bytes(24))
    assert by_time(root, 10) == (1, 3)


def test_the_largest_timestamp_of_a_short_time_index_is_read_from_the_log(root):
    segment(root, 0, [0, 90, 20])
    segment(root, 3, [30, 40])
    assert largest(root) == (1, "same")
    path(root, 0, ".timeindex").write_bytes(b"")
    assert largest(root) == (1, 4)


def test_a_header_that_promises_more_than_its_records_have(root):
    made = [R(0, BASE_TIME_MS), R(1, BASE_TIME_MS + 7)]
    lying = batch_v2(made[:1], max_timestamp=BASE_TIME_MS + 99)
    batches = [(lying, 0, BASE_TIME_MS + 99), (batch_v2(made[1:]), 1, BASE_TIME_MS + 7)]
    write_segment(root / "t-0", 0, batches)
    assert largest(root) == (1, -1)
    assert by_time(root, 50) == (None, "same")


def test_the_end_that_a_broker_takes_by_the_last_index_entry(root):
    segment(root, 0, [0, 10, 20, 30])
    size = len(batch_v2([R(0, 0)]))
    path(root, 0, ".index").write_bytes(struct.pack(">ii", 9, 4 * size))
    code, out, _ = call("lookup-time", str(root / "t-0"), "--latest")
    assert (code, out.splitlines()[0]) == (0, "offset: 0")
    assert "batches go on to 4" in out
    code, out, _ = call("lookup-offset", str(root / "t-0"), "2")
    assert code == 0
    assert "note: a broker uses 0 as the end of the log" in out
    (root / ".kafka_cleanshutdown").unlink()
    assert latest(root) == "offset: 4"


def test_a_tiered_log_says_what_only_remote_storage_has(root):
    """The lines that a broker 4.2.0 left: it writes a start below the first segment here, and keeps all epochs."""
    segment(root, 30, [10, 20])
    (root / "t-0" / "leader-epoch-checkpoint").write_text("0\n1\n0 7\n")
    (root / "log-start-offset-checkpoint").write_text("0\n1\nt 0 7\n")
    here = "offsets 7 to 29 are in the remote storage of this tiered log"
    log = str(root / "t-0")
    assert call("lookup-offset", log, "30")[0] == 0
    message = "offset 29 is in the remote storage of this tiered log, offsets 30 to 31 are here"
    assert message in call("lookup-offset", log, "29")[2]
    assert "offset 6 is outside the log, valid range is 30 to 31" in call("lookup-offset", log, "6")[2]
    assert "offset 7 is in the remote storage" in call("read", log, "--from", "7")[2]
    assert call("lookup-time", log, "--earliest")[1] == f"offset: 30\nnote: a broker answers 7: {here}\n"
    code, out, err = call("lookup-time", log, str(BASE_TIME_MS))
    assert (code, err) == (0, "")
    assert f"note: a broker searches first in remote storage: {here}\n" in out
    assert "on this disk (earlier offsets are in remote storage)" in call("lookup-time", log, str(BASE_TIME_MS + 21))[2]
    code, out, err = call("read", log, "--print", "offset")
    assert (code, out.split()) == (0, ["Offset:30", "Offset:31"])
    assert err == f"kafkalog: {log}: left out: {here}\n"
    assert call("read", log, "--from", "30")[2] == ""


@pytest.mark.parametrize("epochs", ["", "0\n1\n3 30\n"])
def test_an_old_line_of_a_killed_broker_is_not_tiered(root, epochs):
    """The broker has removed segments, and their epochs, and was killed before it wrote the checkpoint again."""
    segment(root, 30, [10, 20])
    (root / "log-start-offset-checkpoint").write_text("0\n1\nt 0 7\n")
    (root / "t-0" / "leader-epoch-checkpoint").write_text(epochs)
    assert "offset 29 is outside the log, valid range is 30 to 31" in call("lookup-offset", str(root / "t-0"), "29")[2]


def test_a_log_that_starts_at_its_first_segment_is_not_tiered(root):
    segment(root, 30, [10, 20])
    (root / "t-0" / "leader-epoch-checkpoint").write_text("0\n1\n0 7\n")
    for start in ("30", "31"):
        (root / "log-start-offset-checkpoint").write_text(f"0\n1\nt 0 {start}\n")
        assert "remote storage" not in call("lookup-offset", root / "t-0", "29")[2]


def call(*argv):
    return kafkalog(*argv, now_ms=lambda: BASE_TIME_MS + 20_000)


def test_lookup_time_gives_the_answer_of_a_broker_in_text_and_json(root):
    segment(root, 0, [0, 10, 20, 30])
    segment(root, 4, [40])
    cut(path(root, 0, ".timeindex"), 12)
    argv = ["lookup-time", str(root / "t-0"), str(BASE_TIME_MS + 20)]
    code, out, _ = call(*argv)
    assert code == 0
    assert "note: a broker would answer offset 4: it looks only into the segment at 4, as its time index goes" in out
    assert json.loads(call(*argv, "--format", "json")[1].splitlines()[0])["broker_offset"] == 4
    path(root, 0, ".index").write_bytes(struct.pack(">ii", 1, -7))
    argv[-1] = str(BASE_TIME_MS + 10)
    answer = json.loads(call(*argv, "--format", "json")[1].splitlines()[0])
    assert (answer["broker_offset"], answer["broker_error"]) == (None, "no such position")
    assert "note: a broker would answer with an error" in call(*argv)[1]


def before(root, *question, now=BASE_TIME_MS):
    out = call("lookup-time", str(root / "t-0"), *question, "--now", str(now))[1]
    return [int(line.removeprefix("offset: ")) for line in out.splitlines()]


def test_offsets_before_a_time_go_by_the_times_of_files(root):
    for base, time_ms in ((0, 100_000), (5, 200_000), (9, 300_000)):
        segment(root, base, [0] * (4 if base else 5))
        os.utime(path(root, base, ".log"), (time_ms // 1000, time_ms // 1000))
    assert before(root, "250000", "--before", "9") == [5, 0]
    assert before(root, "200000", "--before", "1") == [5]
    assert before(root, "99999", "--before", "9") == []
    assert before(root, "300000", "--before", "9", now=299_999) == [13, 9, 5, 0]
    assert before(root, "--latest", "--before", "2") == [13, 9]
    assert before(root, "--latest", "--before", "9", now=1) == [13, 9, 5, 0]
    assert before(root, "--earliest", "--before", "9") == [0]
    (root / "log-start-offset-checkpoint").write_text("0\n1\nt 0 7\n")
    assert before(root, "--latest", "--before", "9") == [13, 9, 7, 7]
    cut(path(root, 9, ".log"), 0)
    cut(path(root, 9, ".index"), 0)
    assert before(root, "--latest", "--before", "2") == [9, 7]

"""A caller of `find` or `stats` that stops early: reads in threads that nobody waits for end at their next report."""

import pytest

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.disk.metered_fs import EndingMeter, MeteredFilesystem


def test_a_read_after_the_end_is_interrupted(tmp_path):
    path = tmp_path / "some.log"
    path.write_bytes(bytes(100))
    seen = []
    meter = EndingMeter(lambda path, size_bytes: seen.append((path, size_bytes)))
    with MeteredFilesystem(RealFilesystem(), meter).open_read(str(path)) as file:
        with meter:
            assert file.read_into(0, memoryview(bytearray(40))) == 40
        with pytest.raises(KeyboardInterrupt):
            file.read_into(40, memoryview(bytearray(40)))
    assert seen == [(str(path), 40)]


def test_an_end_without_a_meter_of_the_caller():
    meter = EndingMeter(None)
    with meter:
        meter("a", 1)
    with pytest.raises(KeyboardInterrupt):
        meter("a", 1)

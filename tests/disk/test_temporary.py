"""Temporary files: where they may be, and what happens where there is no room for them."""

import os
from pathlib import Path

import pytest

from kafkalog_cli.disk import temporary
from kafkalog_cli.disk.temporary import SpooledFile, temporary_directory


def none(*_):
    raise OSError(28, "No space left on device")


def test_temporary_files_are_never_in_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.setenv(name, ".")
    assert Path(temporary_directory()).parent == Path("/") or temporary_directory() == "/var/tmp"
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) == tmp_path)
    with pytest.raises(OSError, match="set TMPDIR"):
        temporary_directory()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert temporary_directory() == str(tmp_path)


@pytest.mark.parametrize("has_room", [True, False])
def test_a_spooled_file_has_all_bytes_whether_or_not_there_is_room(monkeypatch, has_room):
    if not has_room:
        monkeypatch.setattr(temporary, "temporary_file", none)
    file = SpooledFile(10)
    for piece in (b"0123456", b"789abc", b"def"):
        file.write(piece)
    assert file.tell() == 16
    assert (len(file._memory.getbuffer()) == 0) == has_room
    file.seek(5)
    file.write(b"XX")
    assert file.read(3) == b"789"
    file.seek(0)
    assert file.read(100) == b"01234XX789abcdef"
    file.close()

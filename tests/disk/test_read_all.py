"""Files beside a log are read whole, or not at all."""

import pytest

from kafkalog_cli.disk.fs import RealFilesystem, read_all
from kafkalog_cli.errors import Unreadable


def test_a_file_over_the_limit_is_not_read_in_part(tmp_path):
    path = tmp_path / "00000000000000000000.txnindex"
    path.write_bytes(bytes(34))
    assert read_all(RealFilesystem(), str(path), 34) == bytes(34)
    with pytest.raises(Unreadable, match="it has 34 bytes; such a file is read up to 33 bytes"):
        read_all(RealFilesystem(), str(path), 33)

"""Temporary files, the marker of the clean shutdown and refused appends: what is left where a run did not do its work."""

import shutil

import pytest

from tests.attacks.test_links import COMMANDS, PARTITION, kafkalog, place  # noqa: F401  (a fixture)
from tests.support.product import FileAttributes, RealFilesystem
from tests.support.product_journal import new_file, replace_file, temporary_of


def tree(directory):
    """Content by path, without locks and our own empty directory."""
    files = {str(p.relative_to(directory)): p.read_bytes() for p in directory.rglob("*") if p.is_file()}
    return {name: data for name, data in files.items() if not name.endswith("lock")}


def test_a_users_temporary_file_stays(tmp_path):
    (tmp_path / "out.tmp").write_bytes(b"mine")
    attributes = FileAttributes(0o644, tmp_path.stat().st_uid, tmp_path.stat().st_gid, 0)
    replace_file(RealFilesystem(), f"{tmp_path}/out", b"ours", attributes)
    with new_file(RealFilesystem(), f"{tmp_path}/out") as file:
        file.write(b"again")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"out": b"again", "out.tmp": b"mine"}


@pytest.mark.parametrize("make", ["link", "dangling", "directory"])
def test_a_file_that_is_named_is_not_replaced_through_a_link(tmp_path, make):
    (tmp_path / "victim").write_bytes(b"theirs")
    if make == "directory":
        (tmp_path / "out").mkdir()
    else:
        (tmp_path / "out").symlink_to("victim" if make == "link" else "nothing")
    before = sorted(path.name for path in tmp_path.iterdir())
    if make != "dangling":
        with pytest.raises(OSError, match=r"."), new_file(RealFilesystem(), f"{tmp_path}/out"):
            pass
        assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert (tmp_path / "victim").read_bytes() == b"theirs"
    assert not (tmp_path / "nothing").exists()


def test_the_next_run_removes_the_temporary_file_of_a_killed_run(place):  # noqa: F811
    ours = temporary_of(f"{place}/ld/recovery-point-offset-checkpoint")
    theirs = place / "ld/recovery-point-offset-checkpoint.tmp"
    for path in (ours, theirs):
        with open(path, "wb") as file:  # noqa: PTH123
            file.write(b"0\n0\n")
    assert kafkalog(RealFilesystem(), place, COMMANDS["recover"])[0] == 0
    assert not any(path.name.endswith(".kafkalog.tmp") for path in (place / "ld").iterdir())
    assert theirs.read_bytes() == b"0\n0\n"


def test_a_refused_append_leaves_no_partition(place):  # noqa: F811
    shutil.rmtree(place / "ld" / PARTITION)
    (place / "ld/log-start-offset-checkpoint").write_bytes(f"0\n1\n{PARTITION[:-2]} 0 500\n".encode())
    before = tree(place / "ld")
    code, _ = kafkalog(RealFilesystem(), place, COMMANDS["append"])
    assert code == 14
    assert not (place / "ld" / PARTITION).exists()
    assert tree(place / "ld") == before

"""A directory that is held stays the same one, and no link below it is followed."""

import errno
import os
import pickle
from contextlib import ExitStack, contextmanager

import pytest

from kafkalog_cli.disk.fs import FileAttributes, RealFilesystem, read_all
from kafkalog_cli.errors import KafkalogError

ATTRIBUTES = FileAttributes(0o640, os.getuid(), os.getgid(), 99)


@pytest.fixture
def fs():
    return RealFilesystem()


@pytest.fixture
def place(tmp_path):
    (tmp_path / "p").mkdir()
    (tmp_path / "p/file").write_bytes(b"ours")
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim/file").write_bytes(b"theirs")
    return tmp_path


@contextmanager
def raises(*numbers):
    with pytest.raises(OSError) as caught:  # noqa: PT011  (the number is what counts)
        yield
    assert caught.value.errno in numbers


def swap(place):
    (place / "p").rename(place / "aside")
    (place / "p").symlink_to("victim")


def test_an_open_directory_is_the_same_after_its_path_leads_elsewhere(fs, place):
    with fs.hold_directory(f"{place}/p"):
        swap(place)
        assert read_all(fs, f"{place}/p/file") == b"ours"
        assert fs.status(f"{place}/p/file").size_bytes == 4
        assert [entry.path for entry in fs.list_directory(f"{place}/p")] == [f"{place}/p/file"]
        fs.rename(f"{place}/p/file", f"{place}/p/other")
        fs.set_attributes(f"{place}/p/other", ATTRIBUTES)
        fs.link(f"{place}/p/other", f"{place}/p/second")
        fs.set_attributes(f"{place}/p", fs.attributes(f"{place}/p")._replace(mode=0o700))
        fs.unlink(f"{place}/p/second")
        fs.make_directory(f"{place}/p/d")
        fs.create(f"{place}/p/d/new").close()
        fs.sync_directory(f"{place}/p")
        fs.room(f"{place}/p")
        fs.lock(f"{place}/p/lock", first_byte=0, exclusive=True).release()
    assert sorted(os.listdir(place / "aside")) == ["d", "lock", "other"]  # noqa: PTH208
    assert os.listdir(place / "victim") == ["file"]  # noqa: PTH208
    assert (place / "aside").stat().st_mode & 0o777 == 0o700
    assert read_all(fs, f"{place}/p/file") == b"theirs", "it is not held any more"


def test_no_descriptor_is_left(fs, place):
    before = os.listdir("/proc/self/fd")  # noqa: PTH208
    for _ in range(3):
        with fs.hold_directory(f"{place}/p", f"{place}/alias"), fs.hold_directory(f"{place}/p"):
            fs.attributes(f"{place}/alias/file")
            with pytest.raises(KafkalogError):
                fs.list_directory(f"{place}/p/nothing")
            with raises(errno.ENOENT):
                fs.unlink(f"{place}/p/no/file")
    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208


def test_a_copy_for_another_process_has_no_open_directory(fs, place):
    with fs.hold_directory(f"{place}/p"):
        other = pickle.loads(pickle.dumps(fs))
        assert fs.directories.is_held(f"{place}/p")
        assert not other.directories.is_held(f"{place}/p")
        assert other.status(f"{place}/p/file").size_bytes == fs.status(f"{place}/p/file").size_bytes


def test_a_link_is_not_opened_as_a_directory(fs, place):
    swap(place)
    with raises(errno.ELOOP):
        fs.hold_directory(f"{place}/p")
    with raises(errno.ELOOP):
        fs.hold_directory(f"{place}/p/")


CHANGES = {
    "create": lambda fs, at: fs.create(f"{at}/new"),
    "open_write": lambda fs, at: fs.open_write(f"{at}/file"),
    "rename from": lambda fs, at: fs.rename(f"{at}/file", f"{at}/../mine"),
    "unlink": lambda fs, at: fs.unlink(f"{at}/file"),
    "make_directory": lambda fs, at: fs.make_directory(f"{at}/d"),
    "remove_directory": lambda fs, at: fs.remove_directory(f"{at}/d"),
    "sync_directory": lambda fs, at: fs.sync_directory(at),
    "attributes": lambda fs, at: fs.attributes(f"{at}/file"),
    "set_attributes": lambda fs, at: fs.set_attributes(f"{at}/file", ATTRIBUTES),
    "lock": lambda fs, at: fs.lock(f"{at}/file", first_byte=0, exclusive=True),
}


@pytest.mark.parametrize(
    ("change", "held"),
    # To look at attributes is no change: a partition may be a link in a log directory that is held.
    [(change, held) for change in CHANGES for held in (True, False) if not (held and change == "attributes")],
)
def test_no_change_goes_through_a_link_to_a_directory(fs, place, change, held):
    """In a directory that is held, and in a `.kafkalog` of any directory."""
    before = (place / "victim").stat(), (place / "victim/file").stat()
    (place / "p/.kafkalog").mkdir()
    link = place / ("p/link" if held else "p/.kafkalog/link")
    link.symlink_to(place / "victim")
    with fs.hold_directory(f"{place}/{'p' if held else 'victim'}"), raises(errno.ELOOP):
        CHANGES[change](fs, str(link))
    after = (place / "victim").stat(), (place / "victim/file").stat()
    assert [(s.st_mode, s.st_mtime_ns, s.st_nlink, s.st_size) for s in before] == [
        (s.st_mode, s.st_mtime_ns, s.st_nlink, s.st_size) for s in after
    ]


def test_a_directory_opened_through_a_link_can_be_opened_twice(fs, place):
    """As a partition that is a link, which two parts of a command hold; it stays what it was when it was held first."""
    (place / "link").symlink_to(place / "p")
    with fs.hold_directory(f"{place}/p", f"{place}/link"):
        (place / "link").unlink()
        (place / "link").symlink_to(place / "victim")
        with fs.hold_directory(f"{place}/link"):
            fs.create(f"{place}/link/new").close()
    assert (place / "p/new").exists()
    assert not (place / "victim/new").exists()


@pytest.mark.parametrize("name", ["..", ".", "../victim/file", "a/../../victim/file", "a//file"])
def test_a_name_with_separators_or_dots_is_refused_below_an_open_directory(fs, place, name):
    (place / "p/a").mkdir()
    with fs.hold_directory(f"{place}/p"):
        for call in (fs.unlink, fs.create, fs.open_write, fs.make_directory, fs.remove_directory):
            with raises(errno.EINVAL):
                call(f"{place}/p/{name}")
    assert (place / "victim/file").read_bytes() == b"theirs"


def test_nothing_in_our_own_directory_is_read_through_a_link(fs, place):
    own = place / "p/.kafkalog"
    own.mkdir()
    (own / "link").symlink_to(place / "victim")
    (own / "manifest").symlink_to(place / "victim/file")
    found = {entry.path.rpartition("/")[2]: entry for entry in fs.list_directory(str(own))}
    assert {(name, one.is_symlink, one.is_directory, one.is_file) for name, one in found.items()} == {
        ("link", True, False, False),
        ("manifest", True, False, False),
    }
    assert fs.status(f"{own}/link").is_directory is False
    assert fs.status(f"{own}/link/file") is None
    for read in (lambda: fs.open_read(f"{own}/manifest"), lambda: fs.list_directory(f"{own}/link")):
        with pytest.raises(KafkalogError):
            read()


@pytest.mark.parametrize("is_held", [False, True])
def test_our_own_directory_is_itself_no_link(fs, place, is_held):
    (place / "p/.kafkalog").symlink_to(place / "victim")
    own = f"{place}/p/.kafkalog"
    with ExitStack() as stack:
        if is_held:
            stack.callback(fs.hold_directory(f"{place}/p").release)
        for read in (lambda: fs.open_read(f"{own}/file"), lambda: fs.list_directory(own)):
            with pytest.raises(KafkalogError):
                read()
        with raises(errno.ELOOP):
            fs.unlink(f"{own}/file")


@pytest.mark.parametrize("links", [40, 41])
def test_as_many_links_are_followed_as_linux_follows(fs, place, links):
    for number in range(links):
        (place / f"p/link{number}").symlink_to(f"link{number - 1}" if number else "file")
    last = place / f"p/link{links - 1}"
    if links > 40:
        with raises(errno.ELOOP):
            last.read_bytes()
        with pytest.raises(KafkalogError):
            read_all(fs, str(last))
        return
    assert read_all(fs, str(last)) == last.read_bytes() == b"ours"


def test_a_file_with_a_second_link_is_not_opened_for_writing(fs, place):
    (place / "p/linked").hardlink_to(place / "victim/file")
    with raises(errno.EMLINK):
        fs.open_write(f"{place}/p/linked")


@pytest.mark.parametrize("is_held", [False, True])
def test_errors_have_the_whole_path(fs, tmp_path, is_held):
    """System calls on a descriptor know only the last name, and a message needs the path."""
    with ExitStack() as stack:
        if is_held:
            stack.callback(fs.hold_directory(str(tmp_path)).release)
        (tmp_path / "file").write_text("")
        missing, file = str(tmp_path / "missing"), str(tmp_path / "file")
        calls = {
            missing: [
                lambda: fs.unlink(missing),
                lambda: fs.remove_directory(missing),
                lambda: fs.rename(missing, file),
                lambda: fs.link(missing, file),
                lambda: fs.open_write(missing),
                lambda: fs.make_directory(f"{missing}/below"),
            ],
            file: [
                lambda: fs.create(file),
                lambda: fs.make_directory(file),
                lambda: fs.unlink(f"{file}/below"),
                lambda: fs.lock(f"{file}/below", first_byte=0, exclusive=True),
            ],
        }
        for path, functions in calls.items():
            for number, call in enumerate(functions):
                with pytest.raises(OSError) as caught:  # noqa: PT011  (the path is what counts)
                    call()
                assert caught.value.filename.startswith(path), (path, number, caught.value)

"""Makes planned changes the simplest way: to have something to compare with, and no journal."""

from tests.support.product import Cut, Drop, Move, Put


def make(directory, changes):
    """Make `changes` in a directory, in their order; each must find what it expects."""
    contents = [b"".join(change.content.pieces()) if isinstance(change, Put) else b"" for change in changes]
    for change, content in zip(changes, contents, strict=True):
        path = directory / change.name
        if isinstance(change, Cut):
            data = path.read_bytes()
            assert len(data) == change.from_bytes > change.to_bytes
            path.write_bytes(data[: change.to_bytes])
        elif isinstance(change, Move):
            assert not (directory / change.new_name).exists()
            path.rename(directory / change.new_name)
        elif isinstance(change, Drop):
            path.unlink()
        else:
            assert path.exists() == change.replaces
            assert change.content.size_bytes == len(content)
            path.write_bytes(content)


def files(directory):
    """The files of a directory, by name."""
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}

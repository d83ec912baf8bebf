"""A file that is written sequentially and gets its name only when its whole content is on the disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kafkalog_cli.disk.durable import check_replaceable, sync_directory, temporary_of, try_to_remove
from kafkalog_cli.disk.fs import WritableFilesystem
from kafkalog_cli.disk.staged_file import StagedFile


@contextmanager
def new_file(fs: WritableFilesystem, path: str) -> Iterator[StagedFile]:
    """Open a stream for the content of the file at `path`. An existing file is replaced when the block ends.

    After an error nothing of the new file is left. Raises OSError (ELOOP for a link, EINVAL if `path` is not a
    regular file), SyncFailed.
    """
    check_replaceable(fs, path)
    beside = temporary_of(path)
    file = StagedFile(fs, beside)
    try:
        yield file
        file.finish()
        fs.rename(beside, path)
    except BaseException:
        file.close()
        try_to_remove(fs, beside)
        raise
    sync_directory(fs, path.rpartition("/")[0] or ".")

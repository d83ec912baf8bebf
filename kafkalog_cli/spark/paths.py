"""Paths as Spark's users write them: relative paths, URIs, and addresses of other file systems."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote, urlsplit

from kafkalog_cli.errors import UsageError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=/)|(?i:(file|hdfs|s3[an]?|https?|abfss?|wasbs?|gs|dbfs|viewfs)):")
_HERE = ("", "localhost")


def local_path(path: str) -> str:
    """Return a path or a `file:` URI as an absolute path of this machine: workers have other working directories.

    Raises UsageError for an address of another file system, which is not supported.
    """
    found = _SCHEME.match(path)
    if found is None:
        return os.path.abspath(path)  # noqa: PTH100 - links are not followed
    scheme = (found[1] or found[2]).lower()
    if scheme != "file":
        raise UsageError(
            reason=f"{path}: {scheme} is not supported. Log directories are read from file systems that are mounted:"
            f" give a path, or file:///path (a directory whose name looks so: ./{path})"
        )
    try:
        host = urlsplit(path).netloc
    except ValueError as error:
        raise UsageError(reason=f"{path} is not a URI: {error}") from None
    if host.lower() not in _HERE:
        raise UsageError(reason=f"{path}: the files of another host ({host}) are not read; give a path on this host")
    name = unquote(re.sub(r"^(?i:file):(//[^/]*)?", "", path), errors="surrogateescape")
    if not name:
        raise UsageError(reason=f"{path} names no directory")
    return os.path.abspath(re.sub("^/+", "/", name))  # noqa: PTH100

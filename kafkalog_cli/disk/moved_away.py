"""Printed commands that move a file or directory out of the way; nothing is ever overwritten by them."""

from __future__ import annotations

import os

from kafkalog_cli.errors import shell_word


def moved_aside(path: str) -> str:
    """Return the command that renames a file to a name that brokers ignore."""
    return f"`mv -nT {shell_word(path)} {shell_word(f'{path}.aside')}`"


def moved_out(path: str) -> str:
    """Return the command that moves a directory out of its log directory, in which a broker takes no other names."""
    return f"`mv -nT {shell_word(path)} {shell_word(place_outside(path))}`"


def place_outside(path: str) -> str:
    """Return a path outside the directory of `path`: the same name, beside that directory."""
    if os.path.basename(path.rstrip("/")) in {"", ".", ".."}:  # noqa: PTH119 (a name, links are not followed)
        path = os.path.abspath(path)  # noqa: PTH100
    parent, _, name = path.rstrip("/").rpartition("/")
    above = os.path.normpath(f"{parent}/.." if parent else "/" if path.startswith("/") else "..")
    return os.path.join("" if above == "." else above, name)  # noqa: PTH118

"""File names as Java prints them (java.io.File)."""

from __future__ import annotations

import os


def java_path(path: str) -> str:
    """Return `new File(path).toString()`: without doubled and trailing slashes, otherwise unchanged."""
    parts = [part for part in path.split("/") if part]
    return ("/" if path.startswith("/") else "") + "/".join(parts)


def java_absolute_path(path: str) -> str:
    """Return `new File(path).getAbsolutePath()`: with the working directory in front; `.` and `..` stay."""
    path = java_path(path)
    return path if path.startswith("/") else java_path(os.getcwd() + "/" + path)  # noqa: PTH109

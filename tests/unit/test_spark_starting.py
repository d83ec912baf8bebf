"""Options with which Spark's Java starts sooner: never beside those of a user; the archive of classes only where it can be trusted."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafkalog_cli.spark import starting
from kafkalog_cli.spark.starting import has_archive, make_archive, start_variables, usable_archive
from tests.spark.spark_reading import source
from tests.support.product import Environment, KafkalogError, run

assert source  # PySpark is there
TRAIN = starting._train


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache directory, and no options of this machine's user."""
    for name in starting._VARIABLES_OF_USER:
        monkeypatch.delenv(name, raising=False)
    directory = tmp_path / "cache"
    directory.mkdir(mode=0o700)
    monkeypatch.setenv("KAFKALOG_CACHE_DIR", str(directory))
    return directory


@pytest.fixture
def archive(cache, monkeypatch):
    """An archive that was made; not by Java, which takes a minute."""
    monkeypatch.setattr(starting, "_train", lambda new: new.write_bytes(b"classes" * 1000))
    assert not has_archive()
    made = Path(make_archive())
    assert made.parent == cache
    assert usable_archive() == str(made)
    assert has_archive()
    return made


def options(*, is_small=True, **settings):
    found = start_variables(settings, is_small=is_small)
    assert set(found) in (set(), {"SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"})
    return found.get("SPARK_SUBMIT_OPTS", "").split()


def test_small_queries_are_compiled_less(cache):
    assert {"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"} <= set(options())
    assert options(is_small=False) == list(starting._ALWAYS)


def test_options_of_the_user_stay_alone(cache, monkeypatch, tmp_path):
    assert options(**{"spark.driver.extraJavaOptions": "-XX:+UseG1GC"}) == []
    assert options(**{"spark.driver.memory": "1g"}) != []
    for name in starting._VARIABLES_OF_USER:
        with monkeypatch.context() as here:
            here.setenv(name, "-XX:+UseG1GC")
            assert options() == []
    (tmp_path / "home" / "conf").mkdir(parents=True)
    (tmp_path / "home" / "conf" / "spark-defaults.conf").write_text("")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "home"))
    assert options() == []


def test_an_archive_is_used(archive):
    assert f"-XX:SharedArchiveFile={archive}" in options()
    assert f"-XX:SharedArchiveFile={archive}" in options(is_small=False)


def test_a_broken_archive_is_not_used(archive):
    content = archive.read_bytes()
    for broken in (content[:-1], content[:100] + b"X" + content[101:], b""):
        archive.write_bytes(broken)
        assert usable_archive() is None
    archive.write_bytes(content)
    assert usable_archive() == str(archive)
    archive.with_suffix(".jsa.checksum").unlink()
    assert usable_archive() is None


def test_an_archive_that_others_can_change_is_not_used(archive, cache):
    for place in (archive, archive.with_suffix(".jsa.checksum"), cache):
        mode = place.stat().st_mode
        for more in (0o020, 0o002):
            place.chmod(mode | more)
            assert usable_archive() is None
        place.chmod(mode)
        assert usable_archive() == str(archive)


def test_a_foreign_archive_is_not_used(archive, monkeypatch):
    """As of another user: this test may be root's, whose files are trusted."""
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    monkeypatch.setattr(Path, "lstat", lambda self: os.stat_result((*os.lstat(self)[:4], 54321, *os.lstat(self)[5:])))
    assert usable_archive() is None


def test_a_link_is_not_followed(archive):
    moved = archive.with_name("moved")
    archive.rename(moved)
    archive.symlink_to(moved)
    assert usable_archive() is None


def test_an_archive_is_of_one_java_and_its_jars(archive, monkeypatch, tmp_path):
    real = starting.java_environment(os.environ)
    home = Path(real.get("KAFKALOG_JAVA_HOME", real["JAVA_HOME"]))
    other = tmp_path / "java"
    (other / "bin").mkdir(parents=True)
    (other / "bin" / "java").write_bytes((home / "bin" / "java").read_bytes())
    monkeypatch.setattr(starting, "java_environment", lambda _: {"JAVA_HOME": str(other)})
    assert usable_archive() is None
    assert not has_archive()
    (other / "bin" / "java").write_bytes(b"newer")
    assert make_archive() != str(archive)
    assert not archive.exists()  # that of a Java that is not used any more
    assert usable_archive() is not None
    monkeypatch.setattr(starting, "_jars", lambda _: [])
    assert usable_archive() is None


def test_without_a_java_there_is_none(cache, monkeypatch):
    def none(_):
        raise KafkalogError(reason="no Java")

    monkeypatch.setattr(starting, "java_environment", none)
    assert usable_archive() is None
    assert not has_archive()
    assert options() != []


def test_without_a_place_nothing_is_made(cache, monkeypatch):
    cache.chmod(0o777)
    monkeypatch.setattr(starting, "_train", None)
    assert has_archive()
    assert make_archive() is None


@pytest.mark.parametrize("name", ["with a space", 'quo"te', "quo'te", "back\\slash", "new\nline"])
def test_a_path_that_spark_would_split_is_not_used(cache, monkeypatch, name):
    odd = cache / name
    odd.mkdir(mode=0o700)
    monkeypatch.setenv("KAFKALOG_CACHE_DIR", str(odd))
    monkeypatch.setattr(starting, "_train", None)
    assert make_archive() is None
    assert usable_archive() is None


def test_warmup_makes_it_once(cache, monkeypatch):
    monkeypatch.setattr(starting, "_train", lambda new: new.write_bytes(b"classes"))

    def warmup(*options):
        out, err = io.BytesIO(), io.BytesIO()
        code = run(["warmup", *options], Environment(out, err, terminal=None))
        return code, out.getvalue().decode().splitlines(), err.getvalue().decode().splitlines()[-1:]

    assert warmup() == (0, [f"the classes of Spark are kept in {usable_archive()}"], [])
    assert warmup() == (0, [], [])
    Path(usable_archive()).unlink()
    monkeypatch.setattr(sys, "executable", "/bin/false")
    monkeypatch.setattr(starting, "_train", TRAIN)
    assert warmup() == (1, [], ["kafkalog: Spark's start is not prepared: this Java writes no archive of its classes"])
    monkeypatch.setattr(starting, "_train", lambda new: new.write_bytes(b"classes"))
    assert warmup("--quiet") == (0, [], [])
    assert usable_archive() is not None


def test_a_training_that_fails_says_why_and_leaves_nothing(cache, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(KafkalogError, match="writes no archive"):
        make_archive()
    assert list(cache.iterdir()) == []


def test_java_starts_beside_an_archive_that_is_not_its_own(cache, tmp_path):
    """Java itself ignores what is no archive, an empty file, and a file that is not there."""
    found = starting.java_environment(os.environ)
    home = Path(found.get("KAFKALOG_JAVA_HOME", found["JAVA_HOME"]))
    (tmp_path / "garbage").write_bytes(os.urandom(100_000))
    (tmp_path / "empty").touch()
    for name in ("garbage", "empty", "missing"):
        words = [*starting._ALWAYS, *starting._QUICK, f"-XX:SharedArchiveFile={tmp_path / name}", "-version"]
        done = subprocess.run([home / "bin" / "java", *words], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.slow
def test_java_takes_most_classes_of_spark_from_a_real_archive(cache, monkeypatch):
    """Java takes the classes from it, in a start of `kafkalog sql` itself. Slow: Java writes 170 MB of classes."""
    import sys

    made = make_archive()
    assert usable_archive() == made
    assert Path(made).stat().st_size > 50 << 20
    monkeypatch.setattr(starting, "_ALWAYS", ("-Xshare:auto", "-Xlog:class+load:file=" + str(cache / "loaded")))
    example = Path(__file__).parents[2] / "docs" / "example"
    code = (
        "import sys; from kafkalog_cli.spark import starting; starting._ALWAYS = tuple(sys.argv[1].split());"
        f"from kafkalog_cli.__main__ import main; sys.argv = ['kafkalog', 'sql', {str(example)!r}, 'select count(*) n from mixed'];"
        " main()"
    )
    words = " ".join(starting._ALWAYS)
    done = subprocess.run([sys.executable, "-c", code, words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["n", "250"]), done.stderr
    loaded = (cache / "loaded").read_text().splitlines()
    of_archive = sum(line.endswith("shared objects file (top)") for line in loaded)  # without: Java's own archive
    of_files = sum(" source: file:" in line or " source: jrt:" in line for line in loaded)
    # The other classes are made in the run (lambdas, proxies, generated code), which are no file's.
    assert of_archive > 0.9 * (of_archive + of_files) > 5_000

"""The real Kafka of a version (KAFKALOG_TEST_KAFKA_VERSION, else 4.2.0): its jars through Maven into a cache, our Java beside them, its tools in one JVM."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

from tests.kafka.agreement import Ran
from tests.kafka.class_archives import archived
from tests.support.product_kafka import KafkaVersion

HERE = Path(__file__).parent

NEWEST = "4.4.0"
VERSION = os.environ.get("KAFKALOG_TEST_KAFKA_VERSION", "4.2.0")
POM = HERE / "pom.xml"
CACHE = Path(os.environ.get("KAFKALOG_TEST_CACHE", Path.home() / ".cache" / "kafkalog-tests"))
JAVA = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8"]


class NoRealKafka(Exception):
    """There is no Java or Maven here, or Maven cannot reach the jars: the message says which."""


class RealKafka:
    """`version`: the KafkaVersion that it is."""

    def __init__(self, version, jars, ours):
        self.version = version_of(version)
        # Two bindings of slf4j: one that says nothing, for output that is compared, and one for a broker's log.
        jar_files = sorted(jars.glob("*.jar"))
        silent = [str(jar) for jar in jar_files if not jar.name.startswith("log4j-slf4j")]
        talking = [str(jar) for jar in jar_files if not jar.name.startswith("slf4j-nop")]
        self.class_path = self._class_path = ":".join([str(ours), *silent])
        self.broker_class_path = ":".join([str(ours), *talking])

    def dump(self, commands, folder):
        """(stdout, stderr, exit code) of each command line of kafka-dump-log, run in `folder`."""
        outputs = folder / "outputs"
        outputs.mkdir()
        lines = "".join("\t".join([f"{outputs}/{at}", *argv]) + "\n" for at, argv in enumerate(commands))
        done = subprocess.run(
            [*JAVA, "-Xmx1g", *archived("ManyDumps", self._class_path), "-cp", self._class_path, "ManyDumps"],
            input=lines,
            text=True,
            capture_output=True,
            check=True,
            cwd=folder,
        )
        codes = dict(line.split("\t") for line in done.stdout.splitlines())
        for at in range(len(commands)):
            name = f"{outputs}/{at}"
            yield Ran(Path(name).read_bytes(), Path(name + ".err").read_bytes(), int(codes[name]))


def version_of(release):
    """The KafkaVersion of a release such as 4.2.0."""
    return KafkaVersion(release.rpartition(".")[0])


MOVED = (
    ((4, 3), r"\bcommon\.record\.(?!TimestampType\b)", "common.record.internal."),
    (
        (4, 4),
        r"\bcommon\.utils\.(?=(BufferSupplier|ByteBufferOutputStream|Exit|LogContext)\b)",
        "common.utils.internals.",
    ),
    ((4, 4), r"\bcloseHandlers\(\)", "closeQuietly()"),
    ((4, 4), r"log\.flush\(true\);(?=.*LogManager\.shutdown)", "log.prepareActiveSegmentForClose(); log.flush(true);"),
)
"""Packages and methods that a release has moved or renamed: the release, the old text, the new one."""


def sources_for(version, folder):
    """Our Java for a version."""
    moves = [(old, new) for release, old, new in MOVED if release <= version_of(version).schemas]
    moved = folder / "sources"
    moved.mkdir(exist_ok=True)
    for source in (HERE / "java").glob("*.java"):
        text = source.read_text()
        for old, new in moves:
            text = re.sub(old, new, text)
        (moved / source.name).write_text(text)
    return sorted(moved.glob("*.java"))


def real_kafka_here(version=VERSION):
    """The RealKafka of this machine. Raises NoRealKafka."""
    missing = [tool for tool in ("java", "javac", "mvn") if shutil.which(tool) is None]
    if missing:
        raise NoRealKafka(f"the real Kafka needs {', '.join(missing)}")
    jars, classes = CACHE / f"kafka-{version}", CACHE / f"classes-{version}"
    fetch(jars, POM, f"-Dkafka.version={version}")
    classes.mkdir(exist_ok=True)
    return RealKafka(version, jars, compiled(classes, sources_for(version, classes), jars))


def compiled(classes, sources, jars):
    """The jar of our Java, which is compiled once for what it is now. An archive of classes (class_archives.py) needs a jar."""
    content = b"".join(source.name.encode() + source.read_bytes() for source in sources)
    made = classes / f"ours-{hashlib.sha256(content).hexdigest()[:12]}.jar"
    if made.exists():
        return made
    with tempfile.TemporaryDirectory(dir=classes) as folder:
        command = ["javac", "-J-XX:TieredStopAtLevel=1", "-nowarn", "-cp", f"{jars}/*", "-d", f"{folder}/classes"]
        subprocess.run([*command, *map(str, sources)], check=True)
        new = shutil.make_archive(f"{folder}/ours", "zip", f"{folder}/classes")
        Path(new).replace(made)
    return made


def fetch(jars, pom, version):
    """Have Maven bring the jars of a POM into a directory, once for what it says now; `version` is Maven's -D."""
    done = jars / f"done-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"
    with cache_locked():
        if done.exists():
            return
        command = ["mvn", "-q", "-B", "-f", str(pom), version]
        command += ["dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
        fetched = subprocess.run(command, capture_output=True, text=True, check=False)
        if fetched.returncode:
            raise NoRealKafka(f"Maven cannot fetch what {pom.name} names ({version}): {fetched.stdout[-300:]}")
        done.touch()


@contextmanager
def cache_locked():
    """Let no other process fetch meanwhile: on a new machine, the workers of xdist need the same files at once."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

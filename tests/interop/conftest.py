"""The real Kafka: its jars through Maven into a cache, its dump tool run many times in one JVM."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from agreement import Ran

HERE = Path(__file__).parent
VERSION = "4.2.0"


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.interop)


class RealKafka:
    def __init__(self, jars, classes):
        self._class_path = f"{classes}:{jars}/*"

    def dump(self, commands, folder):
        """(stdout, stderr, exit code) of each command line of kafka-dump-log, run in `folder`."""
        outputs = folder / "outputs"
        outputs.mkdir()
        lines = "".join("\t".join([f"{outputs}/{at}", *argv]) + "\n" for at, argv in enumerate(commands))
        java = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx1g", "-Dfile.encoding=UTF-8"]
        done = subprocess.run(
            [*java, "-cp", self._class_path, "ManyDumps"],
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


@pytest.fixture(scope="session")
def real_kafka():
    missing = [tool for tool in ("java", "javac", "mvn") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"the real Kafka needs {', '.join(missing)}")
    cache = Path(os.environ.get("KAFKALOG_TEST_CACHE", Path.home() / ".cache" / "kafkalog-tests"))
    jars, classes = cache / f"kafka-{VERSION}", cache / f"classes-{VERSION}"
    if not (jars / "done").exists():
        command = ["mvn", "-q", "-B", "-f", str(HERE / "pom.xml"), f"-Dkafka.version={VERSION}"]
        command += ["dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"Maven cannot fetch Kafka {VERSION}: {done.stdout[-300:]}")
        (jars / "done").touch()
    classes.mkdir(exist_ok=True)
    sources = [str(path) for path in (HERE / "java").glob("*.java")]
    subprocess.run(["javac", "-nowarn", "-cp", f"{jars}/*", "-d", str(classes), *sources], check=True)
    return RealKafka(jars, classes)

"""docs/dead-broker.md, literally: its commands repair the disk, a real broker starts on it, and a consumer reads it.

The page's scripts of Kafka's distribution are made here: they run the classes that Kafka's own scripts run. Ports are substituted.
"""

import os
import re
import shutil
import subprocess
import sys
import time

import pytest

from tests.docs.consoles import ROOT, examples_of, is_shown, printed_by
from tests.kafka.broker import JAVA, LOGGING, START_SECONDS, STOP_SECONDS
from tests.kafka.recovering import REPAIRS
from tests.support.ports import HeldPort

PAGE = (ROOT / "docs" / "dead-broker.md").read_text()
SCRIPTS = {
    "kafka-server-start.sh": "kafka.Kafka",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
}
pytestmark = [pytest.mark.xdist_group("broker"), pytest.mark.full]


def block(kind, number=0):
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[number]


@pytest.fixture
def place(tmp_path, monkeypatch, real_kafka):
    """A directory with the archive and Kafka's scripts."""
    (tmp_path / "docs").mkdir()
    shutil.copy2(ROOT / "docs" / "dead-broker.tar.gz", tmp_path / "docs")
    (tmp_path / "log4j2.properties").write_text(LOGGING)
    (tmp_path / "bin").mkdir()
    for name, main in SCRIPTS.items():
        java = " ".join([*JAVA, f"-Dlog4j2.configurationFile={tmp_path}/log4j2.properties"])
        script = tmp_path / "bin" / name
        path = real_kafka.broker_class_path if main == "kafka.Kafka" else real_kafka.class_path
        script.write_text(f'#!/bin/sh\nexec {java} -cp "{path}" {main} "$@"\n')
        script.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    return tmp_path


def wait_for_start(server, log):
    deadline = time.monotonic() + START_SECONDS
    while "Kafka Server started" not in log.read_text():
        assert server.poll() is None, log.read_text()[-4000:]
        assert time.monotonic() < deadline, log.read_text()[-4000:]
        time.sleep(0.2)


def test_the_page_of_the_dead_broker_leads_to_a_broker_that_serves_its_records(place):
    run_ids = {}
    for example in examples_of("dead-broker.md", PAGE):
        printed = printed_by(example, run_ids)
        assert is_shown(example.shown, printed), (example, printed)
    held = HeldPort(), HeldPort()
    ports = {f"localhost:{9092 + at}": f"localhost:{one.number}" for at, one in enumerate(held)}

    def here(text):
        return re.sub("|".join(ports), lambda found: ports[found[0]], text)

    (place / "repaired.properties").write_text(here(block("properties")))
    log = place / "server.log"
    with log.open("wb") as out:
        # `exec`: the shell is not left between the test and the broker
        server = subprocess.Popen(["sh", "-c", f"exec {block('sh')}"], stdout=out, stderr=out, start_new_session=True)
    try:
        wait_for_start(server, log)
        consumer = subprocess.run(
            ["sh", "-c", here(block("sh", 1))], capture_output=True, text=True, timeout=START_SECONDS, check=True
        )
    finally:
        server.terminate()
        try:
            server.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        for one in held:
            one.close()
    served = consumer.stdout.splitlines()
    command = [sys.executable, "-m", "kafkalog_cli", "read", "copy/orders-0"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ours = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.splitlines()
    assert served == ours
    assert len(served) == 235
    assert served[-2:] == block("text").splitlines()
    assert [line for line in log.read_text().splitlines() if REPAIRS.search(line) and "orders-0" in line] == []

"""docs/serve.md: its first commands give a client the records, and its table of APIs is that of the server."""

import os
import re
import shlex
import subprocess
import sys

import pytest

from tests.docs.consoles import ROOT
from tests.support.commands import kafkalog
from tests.support.ports import HeldPort
from tests.support.product import apis
from tests.support.serving import read_records

PAGE = (ROOT / "docs" / "serve.md").read_text()
CONSUMER = """
import sys, time
import kafka

wanted, *words = sys.argv[1:]
assert words[0::2] == ["--bootstrap-server", "--topic", "--from-beginning"], words
consumer = kafka.KafkaConsumer(words[3], bootstrap_servers=words[1], auto_offset_reset="earliest")
count, until, is_last = 0, time.monotonic() + 120, False
while not is_last:
    is_last = count >= int(wanted) or time.monotonic() > until
    for messages in consumer.poll(timeout_ms=1000).values():
        count += len(messages)
        for message in messages:
            sys.stdout.buffer.write((b"null" if message.value is None else message.value) + b"\\n")
"""
"""Prints values as kafka-console-consumer does, of so many records and any that are too many."""
SECONDS = 300


def test_commands_of_the_serve_page_print_the_records(tmp_path):
    """The page's lines, but for the path, the port and the topic of docs/example, with a client of Python for Java's."""
    pytest.importorskip("kafka")
    block = re.search(r"```sh\n(.*?)```", PAGE, re.DOTALL)[1]
    example = ROOT / "docs" / "example"
    wanted = [value for of_one in read_records(example, "mixed").values() for _, _, value in of_one]
    held = HeldPort()
    port = held.number
    lines = block.replace("/var/lib/kafka", str(example)).replace("orders", "mixed").splitlines()
    assert len(lines) == 2
    serve, consume = map(shlex.split, lines)
    assert (serve[0], consume[0]) == ("kafkalog", "kafka-console-consumer")
    assert f":{_default_port()}" in lines[1]
    consume = [word.replace(f":{_default_port()}", f":{port}") for word in consume]
    command = [sys.executable, "-m", "kafkalog_cli", *serve[1:], "--port", str(port)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, env=dict(os.environ)) as server:
        try:
            assert server.stdout.readline().startswith(f"127.0.0.1:{port} serves 2 topics, 3 partitions".encode())
            done = subprocess.run(
                [sys.executable, "-c", CONSUMER, str(len(wanted)), *consume[1:]],
                capture_output=True,
                check=True,
                timeout=SECONDS,
            )
        finally:
            server.terminate()
            code = server.wait(SECONDS)
    held.close()
    lines_wanted = b"".join((b"null" if value is None else value) + b"\n" for value in wanted).split(b"\n")
    assert sorted(done.stdout.split(b"\n")) == sorted(lines_wanted)
    assert code == 0, "as its man page says of SIGTERM"


def _default_port():
    return re.search(r"--port .*?\[default: (\d+)\]", kafkalog("serve", "--help").out, re.DOTALL)[1]


def test_the_serve_page_lists_the_apis_of_the_server():
    rows = re.findall(r"^\| ((?:[A-Z]\w+(?:, )?)+) \| ([0-9 to,]+) \|", PAGE, re.MULTILINE)
    shown = {}
    for names, versions in rows:
        ranges = [(int(one.split(" to ")[0]), int(one.split(" to ")[-1])) for one in versions.split(", ")]
        ranges = ranges if len(ranges) > 1 else ranges * len(names.split(", "))
        shown |= dict(zip(names.split(", "), ranges, strict=True))
    served = {
        api.name: (0 if api.name == "Produce" else api.versions.first, api.versions.last) for api in apis().values()
    }
    assert shown == served

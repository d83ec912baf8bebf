"""The pages of docs/broker-messages: their commands run on a real log directory, their findings exist."""

import errno
import io
import os
import shlex
import shutil
from pathlib import Path

import pytest

from kafkalog_cli.cli.app import run
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.check.doctor.broker_pages import JAVA, OPERATING_SYSTEM, messages
from kafkalog_cli.ops.check.doctor.commands import LOG_DIR, METADATA_DIR, PARTITION
from tests.support.metadata_logs import batches, partition, topic_id, value

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "broker-messages"
MESSAGES = messages()

PATHS = {
    "/var/lib/kafka/copy/orders-0": "copy/mixed-0",
    "/var/lib/kafka/copy": "copy",
    METADATA_DIR: "meta",
    "/etc/kafka/server.properties": "server.properties",
    PARTITION: "data/mixed-0",
    LOG_DIR: "data",
}
QUORUM_STATE = (
    '{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,'
    '"currentVoters":[{"voterId":1}],"data_version":0}'
)
NO_TEXT = 'Cannot invoke "java.lang.CharSequence.length()" because "this.text" is null'
UNSAFE = "unsafe memory access operation in compiled Java code"
NOT_OURS = {"cat", "fuser", "findmnt", "ls", "df", "dmesg", "find", "cp"}
COMMANDS = sorted({step.command for message in MESSAGES for step in message.steps})


@pytest.mark.parametrize("path", sorted(PAGES.glob("*[!E].md")), ids=lambda path: path.stem)
def test_all_of_a_page_is_read(path):
    """Each code block is a command with its reason, and no part of a page is empty."""
    (message,) = [message for message in MESSAGES if message.slug == path.stem]
    page = path.read_text()
    assert len(message.texts) == page.count("\n- `") + 1
    assert len(message.steps) == page.count("```sh\n") == page.count("```") / 2 > 0
    assert bool(message.findings) == ("`kafkalog verify` reports it as" in page)
    assert all((message.meaning, message.at_stake, *(step.why for step in message.steps)))


def test_no_page_and_no_text_is_there_twice():
    slugs = [message.slug for message in MESSAGES]
    texts = [text for message in MESSAGES for text in message.texts]
    assert len(set(slugs)) == len(slugs) >= 40
    assert len(set(texts)) == len(texts)


def test_findings_are_kinds_that_verify_has():
    known = {kind.value for kind in FindingKind}
    assert {kind for message in MESSAGES for kind in message.findings} <= known


def test_texts_of_the_operating_system_are_its_own():
    texts = {text.text for message in MESSAGES for text in message.texts if text.where == OPERATING_SYSTEM}
    assert {"No space left on device", "Stale file handle"} < texts <= {os.strerror(code) for code in errno.errorcode}


def test_texts_of_java_are_its_own():
    texts = {text.text for message in MESSAGES for text in message.texts if text.where == JAVA}
    names = ("AccessDenied", "NoSuchFile", "DirectoryNotEmpty", "FileAlreadyExists")
    files = {f"java.nio.file.{name}Exception: {{}}" for name in names}
    numbers = {"java.lang.NumberFormatException: For input string: {}", "java.lang.StringIndexOutOfBoundsException: {}"}
    errors = {f"java.lang.OutOfMemoryError: {name}" for name in ("Java heap space", "GC overhead limit exceeded")}
    faults = {f"a fault occurred in {name}" for name in ("an unsafe memory access operation", f"a recent {UNSAFE}")}
    of_the_jvm = {"SIGBUS (0x7)", "There is insufficient memory for the Java Runtime Environment to continue."}
    assert texts == {*files, *numbers, *errors, *faults, *of_the_jvm, "Map failed", NO_TEXT}


@pytest.fixture
def log_dirs(tmp_path):
    """A log directory that a broker wrote, with all files that the pages name, and a copy of it."""
    shutil.copytree(ROOT / "docs" / "example", tmp_path / "data")
    (tmp_path / "data" / "cleaner-offset-checkpoint").write_text("0\n1\nmixed 0 5\n")
    records = []
    for name in ("mixed", "levels", "__consumer_offsets"):
        folder = tmp_path / "data" / f"{name}-0"
        if not folder.exists():
            folder.mkdir()
            (folder / "00000000000000000000.log").touch()
            (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id(1)}")
        own_id = (folder / "partition.metadata").read_text().split()[-1]
        records += [value("TopicRecord", name=name, topicId=own_id), partition(own_id), partition(own_id, number=1)]
        policy = {"resourceType": 2, "resourceName": name, "name": "cleanup.policy", "value": "compact,delete"}
        records.append(value("ConfigRecord", **policy))
    for folder in (tmp_path / "data" / "__cluster_metadata-0", tmp_path / "meta" / "__cluster_metadata-0"):
        folder.mkdir(parents=True)
        (folder / "00000000000000000000.log").write_bytes(batches([records])[0])
        (folder / "quorum-state").write_text(QUORUM_STATE)
    (tmp_path / "server.properties").write_text("node.id=1\n")
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    return tmp_path


@pytest.mark.exhaustive
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_broker_message_pages_run(command, log_dirs, monkeypatch):
    monkeypatch.chdir(log_dirs)
    program, *arguments = shlex.split(command)
    if program != "kafkalog":
        assert program in NOT_OURS
        return
    for path, stand_in in PATHS.items():
        arguments = [argument.replace(path, stand_in).replace("orders", "mixed") for argument in arguments]
    out, err = io.BytesIO(), io.BytesIO()
    code = run(arguments, Environment(stdout=out, stderr=err))
    # 3: the example, without its stop marker, has warnings; 2 would be a command or an option that does not exist.
    assert code in (0, 3), err.getvalue().decode()

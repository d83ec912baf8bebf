"""Files and directories that belong to another user and may not be read: each command ends with an exit code, and names them.

The commands run as `nobody` in a child of this process, because the Python of these tests may lie where only root can
read it. Root may read everything, so this needs root, which can become somebody else.
"""

# ruff: noqa: F811 - `place` is a fixture

import importlib
import os
import pkgutil
import shutil
import tempfile
from pathlib import Path

import pytest

import kafkalog_cli
from tests.attacks.test_links import PARTITION, place  # noqa: F401
from tests.attacks.test_odd_files_read import COMMANDS, NAMES, STEM, done, tree
from tests.support.other_users import User, as_user
from tests.support.product import KafkalogError

NOBODY, OWNER = 65534, 12345
RUN = "20260101T000000.000Z-recover-abcd"
WRITERS = {
    "recover": ("recover", "LOGS"),
    "roll": ("roll", "PARTITION", "--force"),
    "retain": ("retain", "PARTITION", "--config", "cleanup.policy=delete", "--config", "retention.ms=1"),
    "compact": ("compact", "PARTITION", "--config", "cleanup.policy=compact"),
    "truncate": ("truncate", "PARTITION", "--to", "50", "--single-replica"),
    "delete-records": ("delete-records", "PARTITION", "--before", "50", "--single-replica"),
    "append": ("append", "PARTITION", "--single-replica"),
    "undo": ("undo", "PARTITION", RUN),
    "purge": ("purge", "LOGS", "--older-than", "0s"),
}
LOG = f"{PARTITION}/{STEM}.log"
HIDDEN = {
    **{f"{name} 000": (path, 0o000) for name, path in NAMES.items()},
    "its directory of runs": (f"{PARTITION}/.kafkalog", 0o000),
    **{f"partition {mode:o}": (PARTITION, mode) for mode in (0o000, 0o111, 0o444, 0o222)},
    **{f"log directory {mode:o}": ("", mode) for mode in (0o000, 0o111, 0o444, 0o222)},
    "above the log directory": ("..", 0o000),
}
NEEDED_BY_VERIFY = (
    "*.log 000",
    "partition 0",
    "partition 444",
    "log directory 0",
    "log directory 444",
    "above the log directory",
)


def readers_of_spark():
    """The parts of Spark that read in this process, by name; none where the extra `spark` is not installed."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return {}
    from tests.spark.exporting import export
    from tests.spark.spark_reading import rows

    return {
        "source": lambda place: rows(place / "ld", mode="permissive"),
        "export": lambda place: export(place / "ld", place / "out/exported"),
    }


def all_commands(place):
    """Name to exit code and text of every command; an error of Spark's readers has its own exit code."""
    found = {}
    for name, words in {**COMMANDS, **{f"change {name}": words for name, words in WRITERS.items()}}.items():
        code, out, err = done(place, words)
        found[name] = code, out + err
    for name, read in readers_of_spark().items():
        try:
            read(place)
            found[name] = 0, ""
        except KafkalogError as error:
            found[name] = int(error.exit_code), str(error)
    return found


@pytest.fixture(scope="module")
def imported(corpus, tmp_path_factory):
    """All modules, also those that commands import as they go: nobody may not be able to."""
    for module in pkgutil.walk_packages(kafkalog_cli.__path__, "kafkalog_cli."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    top = tmp_path_factory.mktemp("good")
    for name in ("ld", "good"):
        shutil.copytree(corpus / "crash-torn/before", top / name)
    (top / "ld" / LOG).chmod(0)
    all_commands(top)


@pytest.fixture
def theirs(place, imported):
    """A log directory that nobody can reach, which belongs to another user, with a good copy; and a run to undo."""
    if os.geteuid():
        pytest.skip("NOT TRIED: only root can become another user")
    top = Path(tempfile.mkdtemp(prefix="kafkalog-test-"))
    top.chmod(0o755)
    for name in ("ld", "good"):
        shutil.copytree(place / "ld", top / "above" / name)
    (top / "above/ld" / PARTITION / ".kafkalog" / RUN).mkdir(parents=True)
    for path in (top, *top.rglob("*")):
        os.chown(path, OWNER, OWNER)
    (top / "above/out").mkdir()
    (top / "above/out").chmod(0o777)
    yield top / "above"
    shutil.rmtree(top)


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", HIDDEN)
def test_readers_report_files_and_directories_without_read_permission(theirs, case, evidence):
    name, mode = HIDDEN[case]
    path = theirs / "ld" / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"0\n0\n")
    os.chown(path, OWNER, OWNER)
    path.chmod(mode)
    before = tree(theirs / "ld")
    found = as_user(User(NOBODY, NOBODY), all_commands, theirs)
    assert isinstance(found, dict), found
    assert tree(theirs / "ld") == before
    for command, (code, text) in found.items():
        assert "Traceback" not in text, (command, text)
        assert "PermissionError" not in text, (command, text)
        if command.startswith("change "):
            assert code or "nothing" in text or "skipped" in text, (command, text)
    if case in NEEDED_BY_VERIFY:
        for command in ("verify", "verify deep", "read"):
            code, text = found[command]
            assert code, (command, text)
            assert "ermission denied" in text or "not found" in text or "no such" in text, (command, text)
    evidence("R42", len(found), len(HIDDEN))

"""What `verify` advises for damage in directories that a broker has marked: no command that `recover` refuses."""

import json
import shlex
import shutil

import pytest

from tests.cli.test_every_next_step import commands_of, execute
from tests.support.commands import kafkalog

MARK = "0123456789abcdef" * 2


def marked(corpus, tmp_path, kind, source):
    disk = tmp_path / "disk"
    shutil.copytree(corpus / source / "before", disk)
    path = disk / f"{source}-0.{MARK}-{kind}"
    (disk / f"{source}-0").rename(path)
    code, out, _ = kafkalog("verify", path, "--format", "json")
    return path, code, [line for line in map(json.loads, out.splitlines()) if line["type"] == "finding"]


@pytest.mark.parametrize("source", ["crash-torn", "crash-flip-mid", "crash-del-index", "crash-bad-snapshot"])
@pytest.mark.parametrize("kind", ["delete", "future"])
def test_verify_advises_no_repair_of_directories_marked_delete_stray_or_future(
    corpus, tmp_path, monkeypatch, kind, source
):
    monkeypatch.chdir(tmp_path)
    _, code, found = marked(corpus, tmp_path, kind, source)
    assert code in (3, 4)
    steps = [line for line in found if line["severity"] != "info"]
    assert steps
    for line in steps:
        assert "recover" not in line["next_step"]
    if kind == "delete":
        assert all("nothing has to be done" in line["next_step"] for line in steps)
        return
    (move,) = {command for line in steps for command in commands_of(line)}
    assert not (tmp_path / shlex.split(move)[-1]).exists()
    execute(move)
    assert kafkalog("verify", "disk")[0] == 0


def test_a_file_in_place_of_the_run_directory_is_reported(corpus, tmp_path):
    """The refusal names the command, and after that the repair is done."""
    disk = tmp_path / "disk"
    shutil.copytree(corpus / "crash-torn" / "before", disk)
    path = disk / "crash-torn-0"
    (path / ".kafkalog").write_bytes(b"")
    code, _, err = kafkalog("recover", path)
    assert code == 14
    command = next(part for part in err.split("`") if part.startswith("rm "))
    execute(command)
    assert kafkalog("recover", path)[0] == 0

"""What purge means for the marker of a clean shutdown: what cannot be undone any more does not bring it back."""

import json
import os
import shutil

import pytest

from tests.cli.test_pace import MARKER, NAMES, Hooked, kafkalog, log_directory


def held_reasons(root):
    return json.loads((root / ".kafkalog-clean-shutdown").read_text())["reasons"]


def test_the_clean_shutdown_file_stays_away_after_the_run_that_removed_records_is_purged(tmp_path):
    root = log_directory(tmp_path / "log")
    assert kafkalog("recover", root)[0] == 0
    (run_id,) = held_reasons(root)
    assert held_reasons(root) == {run_id: NAMES}
    assert kafkalog("purge", "--older-than", "0s", root / "t-3")[0] == 0
    assert held_reasons(root) == {run_id: [name for name in NAMES if name != "t-3"], "purged": ["t-3"]}
    assert kafkalog("undo", root, run_id)[0] == 0  # all others
    assert held_reasons(root) == {"purged": ["t-3"]}
    assert not (root / MARKER).exists()


@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_a_purge_that_was_cut_off_does_not_restore_the_clean_shutdown_file(tmp_path, at):
    """What is left of the run's directory looks like a run that never began, which an undo takes away."""
    root = log_directory(tmp_path / "log")
    for name in NAMES[1:]:
        shutil.rmtree(root / name)
    assert kafkalog("recover", root)[0] == 0
    (run_id,) = held_reasons(root)
    calls = []

    def crash(call):
        if run_id in call.path and call.name in ("unlink", "remove_directory", "sync_directory"):
            calls.append(call.name)
            if len(calls) == at:
                raise OSError(5, os.strerror(5), call.path)

    kafkalog("purge", "--older-than", "0s", root, fs=Hooked(crash))
    assert len(calls) >= at
    kafkalog("undo", root, run_id)
    kafkalog("purge", "--older-than", "0s", root)
    assert held_reasons(root) == {"purged": ["t-0"]}
    assert not (root / MARKER).exists()

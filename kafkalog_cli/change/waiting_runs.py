"""The runs on a partition for which the clean shutdown marker is away, though they ended and lost no record."""

from __future__ import annotations

from collections.abc import Mapping

from kafkalog_cli.change.clean_marker import runs_waiting
from kafkalog_cli.change.manifest import FileFacts, Manifest, RunState, read_manifest
from kafkalog_cli.change.partition_state import difference_of_files
from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import KafkalogError


def settled_runs(fs: Filesystem, path: str, name: str, log_dir: str) -> list[Manifest]:
    """Return the runs for which the marker is still removed, though they ended and lost no record, or were undone.

    A run without a manifest is not returned: the leftovers of a truncation may have been removed.
    """
    found = []
    for run_id in runs_waiting(fs, log_dir, name):
        try:
            manifest = read_manifest(fs, path, run_id)
        except (OSError, KafkalogError):  # reported by commands that work with that run
            continue
        if manifest is not None and manifest.run.holds_marker and _may_be_settled(manifest):
            found.append(manifest)
    return found


def followed_runs(fs: Filesystem, path: str, name: str, log_dir: str, manifest: Manifest) -> list[str]:
    """Return the settled runs that the run of `manifest` followed, with no change of the partition between them.

    If that run left the partition sound, the marker need not be away because of them either.
    """
    found: list[str] = []
    files = manifest.before.files
    waiting = [one for one in settled_runs(fs, path, name, log_dir) if one.run.run_id != manifest.run.run_id]
    while waiting:
        last = next((one for one in waiting if difference_of_files(_left(one), files) is None), None)
        if last is None:
            break
        waiting.remove(last)
        found.append(last.run.run_id)
        files = last.before.files
    return found


def _may_be_settled(manifest: Manifest) -> bool:
    return manifest.state is RunState.UNDONE or (manifest.state is RunState.DONE and manifest.run.keeps_records)


def _left(manifest: Manifest) -> Mapping[str, FileFacts]:
    is_done = manifest.state is RunState.DONE and manifest.after is not None
    return manifest.after.files if is_done and manifest.after is not None else manifest.before.files

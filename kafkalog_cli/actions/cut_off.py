"""Undoes a run that was interrupted by a power cut or a kill, before the next run reads the partition."""

from __future__ import annotations

from kafkalog_cli.actions.partition_facts import Places
from kafkalog_cli.actions.runs import Clock
from kafkalog_cli.actions.undo import apply_undo, plan_undo
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.storage.changing.manifest import RunState, read_manifest, run_ids
from kafkalog_cli.storage.fs import WritableFilesystem
from kafkalog_cli.storage.partition import Partition


def cut_off_run(fs: WritableFilesystem, partition: Partition) -> str | None:
    """Return the id of the partition's last run if it was interrupted; None if it ended, or there is no run.

    Earlier runs are ignored: any later run found the partition sound, or repaired it.
    """
    names = run_ids(fs, partition.path) if partition.runs else []
    if not names:
        return None
    try:
        manifest = read_manifest(fs, partition.path, names[-1])
    except (KafkalogError, OSError):
        return None
    is_cut_off = manifest is not None and manifest.state in (RunState.STARTED, RunState.UNDOING)
    return names[-1] if is_cut_off else None


def take_back(
    fs: WritableFilesystem, partition: Partition, run_id: str, clock: Clock, places: Places | None = None
) -> None:
    """Undo the run, under the locks of log directory and partition. Raises as `plan_undo` and `apply_undo`."""
    apply_undo(fs, plan_undo(fs, partition, run_id, clock, places))

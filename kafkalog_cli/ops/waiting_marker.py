"""Restores the clean shutdown marker that an earlier run removed and could not restore."""

from __future__ import annotations

from kafkalog_cli.broker.loaded_segment import LoadSettings
from kafkalog_cli.change.clean_marker import release_marker
from kafkalog_cli.change.manifest import ChangeKind, Manifest, RunState
from kafkalog_cli.change.partition_state import difference_of_files, first_difference, snapshot
from kafkalog_cli.change.waiting_runs import followed_runs, settled_runs
from kafkalog_cli.disk.durable import error_text, is_of_a_sync
from kafkalog_cli.disk.fs import WritableFilesystem
from kafkalog_cli.errors import KafkalogError, NotChanged, shell_word
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.apply_changes import is_sound


def settle_marker(fs: WritableFilesystem, partition: Partition, log_dir: str, now_ms: int) -> str | None:
    """Restore the marker if the log is as those runs left it. Returns a message, None if there is nothing to report.

    The caller locks the partition. Raises NotChanged for a failed sync: no change may follow it.
    """
    command = f"kafkalog recover {shell_word(partition.path)}"
    try:
        is_back = False
        for manifest in settled_runs(fs, partition.path, partition.name, log_dir):
            if _is_as_left(fs, partition.path, log_dir, manifest, now_ms):
                is_whole = manifest.state is RunState.DONE and _first_touched(manifest) is None
                also = followed_runs(fs, partition.path, partition.name, log_dir, manifest) if is_whole else []
                is_back |= release_marker(fs, log_dir, manifest.run.run_id, [partition.name], also=also)
    except (OSError, KafkalogError) as error:
        reason = error_text(error) if isinstance(error, OSError) else str(error)
        told = f".kafka_cleanshutdown is still missing: {reason}; once the disk works, `{command}` puts it back"
        if is_of_a_sync(error):
            raise NotChanged(path=log_dir, reason=told) from error
        return told
    return ".kafka_cleanshutdown, which an earlier run could not restore, is restored" if is_back else None


def _is_as_left(fs: WritableFilesystem, path: str, log_dir: str, manifest: Manifest, now_ms: int) -> bool:
    """Whether the log is sound and as the run left it or, if the run was undone, as it was before the run."""
    if manifest.state is RunState.UNDONE:
        return difference_of_files(manifest.before.files, snapshot(fs, path).files) is None
    found = snapshot(fs, path, log_dir, manifest.edits)
    if manifest.after is None or first_difference(manifest.after, found) is not None:
        return False
    return is_sound(fs, path, LoadSettings(now_ms), _first_touched(manifest))


def _first_touched(manifest: Manifest) -> int | None:
    """Return the base offset of the segment that an append extended, for `marker_after`; None if there is none."""
    grown = [change.name.partition(".")[0] for change in manifest.changes if change.kind is ChangeKind.GROW]
    return min((int(base) for base in grown if base.isdecimal()), default=None)

"""The last run of a partition: whether it was interrupted, whether it can be undone, and whether it can be read."""

from kafkalog_cli.change.manifest import Manifest, RunState, read_manifest
from kafkalog_cli.change.runs import MANIFEST, run_directory, run_ids
from kafkalog_cli.disk.fs import WritableFilesystem
from kafkalog_cli.errors import (
    KafkalogError,
    Refused,
    UnsupportedFormat,
)
from kafkalog_cli.log.partition import Partition


def cut_off_run(fs: WritableFilesystem, partition: Partition) -> str | None:
    """Return the id of the partition's last run if it was interrupted; None if it ended, or there is no run.

    Earlier runs are ignored: any later run found the partition sound, or repaired it.
    """
    manifest = _last_manifest(fs, partition)
    is_cut_off = manifest is not None and manifest.state in (RunState.STARTED, RunState.UNDOING)
    return manifest.run.run_id if manifest is not None and is_cut_off else None


def is_cut_off_for_good(fs: WritableFilesystem, partition: Partition) -> bool:
    """Whether the partition's last run kept nothing (--discard), and may have been interrupted: no undo is possible.

    A run that is recorded as done counts too: a sync that fails right after that is reported as an interruption.
    """
    manifest = _last_manifest(fs, partition)
    return manifest is not None and manifest.discard


def _last_manifest(fs: WritableFilesystem, partition: Partition) -> Manifest | None:
    names = run_ids(fs, partition.path) if partition.runs else []
    try:
        return read_manifest(fs, partition.path, names[-1]) if names else None
    except (KafkalogError, OSError):
        return None


def unread_run(fs: WritableFilesystem, partition: Partition) -> tuple[str, str] | None:
    """Return the path of the last run's manifest and why it is not followed; None if it can be read.

    Such a run counts as none: it may have been cut off, but nothing that it says is believed.
    """
    names = run_ids(fs, partition.path) if partition.runs else []
    if not names:
        return None
    try:
        read_manifest(fs, partition.path, names[-1])
    except (Refused, UnsupportedFormat) as error:
        return str(error.details["path"]), str(error.details["reason"])
    except (KafkalogError, OSError) as error:
        return f"{run_directory(partition.path, names[-1])}/{MANIFEST}", str(error)
    return None

"""Single segment files in place of partition directories, for the commands that read."""

import copy
from collections.abc import Sequence

from kafkalog_cli.cli.environment import Environment


def with_single_files(environment: Environment, paths: Sequence[str]) -> tuple[Environment, list[str]]:
    """Return the environment and the directories in which the segment files in `paths` are partitions of one segment.

    Raises as `directories_of`.
    """
    from kafkalog_cli.ops.single_files import directories_of

    changed = copy.copy(environment)
    changed.fs, found = directories_of(environment.fs, paths)
    return changed, found

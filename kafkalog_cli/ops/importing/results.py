"""The results of an import: the partitions that it plans to make, and the partitions that it has made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from kafkalog_cli.change.publishing.new_partitions import Completed
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.ops.importing.building import Built
from kafkalog_cli.ops.importing.inputs import InputFile
from kafkalog_cli.ops.importing.planning import Job, TopicId
from kafkalog_cli.ops.importing.proving import Proof
from kafkalog_cli.ops.read.committed import ReadNote


class JobDone(NamedTuple):
    """A partition that is complete under the name `staged`; `proof` is None if it was not requested."""

    topic: str
    partition: int
    staged: str
    built: Built
    proof: Proof | None = None
    inode: int | None = None
    """The staged directory, by which it is known when it gets its place."""


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """The planned partitions. `jobs` is None if only the rows show which partitions. `ids` are by topic."""

    files: tuple[InputFile, ...]
    jobs: tuple[Job, ...] | None
    ids: dict[str, TopicId] = field(default_factory=dict)
    keep_offsets: bool = False


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The partitions that were made, and remarks on them.

    `completed` is about an earlier run that was cut off after its commit.
    """

    plan: ImportPlan | None = None
    done: tuple[JobDone, ...] = ()
    notes: tuple[ReadNote, ...] = ()
    completed: Completed = field(default_factory=Completed)

    @property
    def exit_code(self) -> ExitCode:
        """FAILURE if partitions of a committed run are lost."""
        return ExitCode.FAILURE if self.completed.lost else ExitCode.OK

"""The verb salvage: its request, and the result with its next steps and exit code."""

from dataclasses import dataclass

from kafkalog_cli.errors import ExitCode, shell_word
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.next_steps import filled
from kafkalog_cli.ops.recover.recover import RecoverRequest
from kafkalog_cli.ops.recover.salvage import LostOffsets, Salvaged, salvage
from kafkalog_cli.ops.session.verb import Verb
from kafkalog_cli.ops.session.work import Work, of_the_system


@dataclass(frozen=True, slots=True)
class SalvageRequest:
    """A request to salvage: copies go to the directory `target`; `recovery` has the settings for indexes."""

    recovery: RecoverRequest
    target: str


@dataclass(frozen=True, slots=True)
class Copied:
    """The result for one partition. `metadata` is the `--metadata` of the command line, which next steps repeat."""

    partition: Partition
    salvaged: Salvaged
    metadata: str | None = None

    @property
    def next_step(self) -> str:
        """The commands that check the copy and put it in the place of the damaged log; "" if nothing was copied."""
        if not self.salvaged.batches:
            return ""
        away, back, repair = self.replacing
        replace = f"With the broker stopped, {away}, {back} and {repair} put it in the place of the damaged log"
        return f"{self.checking}. {replace}"

    @property
    def checking(self) -> str:
        """The next step that checks the copy."""
        return f"`kafkalog verify {shell_word(self.salvaged.path)}` checks the copy"

    @property
    def replacing(self) -> tuple[str, ...]:
        """The commands, between backticks, that put the copy in the place of the damaged log, in their order."""
        commands = (
            "`mv -nT PATH PATH_AWAY`",
            f"`mv -nT {shell_word(self.salvaged.path)} PATH`",
            "`kafkalog recover PATH`",
        )
        return tuple(filled(one, self.partition.path, self.partition.path, self.metadata) for one in commands)

    @property
    def exit_code(self) -> ExitCode:
        """OK without losses, WARNINGS if only a torn tail is lost, else CORRUPTION."""
        lost = self.salvaged.lost
        is_torn_only = not self.salvaged.skipped and all(_is_torn_tail(self.partition, one) for one in lost)
        if self.salvaged.unreadable or (lost and not is_torn_only):
            return ExitCode.CORRUPTION
        return ExitCode.WARNINGS if lost else ExitCode.OK


def _is_torn_tail(partition: Partition, lost: LostOffsets) -> bool:
    """Whether only bytes are lost that a crash can leave at the log's end. A crash leaves no bad sectors."""
    segments = partition.segments
    return lost.last is None and not lost.unreadable_bytes and lost.path in [one.log.path for one in segments[-1:]]


def _run(work: Work, request: SalvageRequest) -> Copied:
    partition = work.partition
    settings = request.recovery.load_settings(work.log_dir, partition.topic)
    target = f"{request.target.rstrip('/')}/{partition.name}"
    try:
        return Copied(partition, salvage(work.fs, partition, target, settings), work.settings.metadata_option)
    except OSError as error:
        raise of_the_system(target, error) from error


SALVAGE = Verb("salvage", _run, changes=False)
"""The source is only read, and not locked."""

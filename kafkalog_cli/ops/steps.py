"""Next steps as values: sentences with their commands, of findings, plans and `doctor`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum, unique
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kafkalog_cli.disk.names import place_outside
from kafkalog_cli.errors import as_typed
from kafkalog_cli.log.partition import directory_name
from kafkalog_cli.log.settings.source import SettingsSource
from kafkalog_cli.ops.ownership import Replication

if TYPE_CHECKING:
    from kafkalog_cli.ops.change.plans import Remark


@unique
class Word(Enum):
    """A word of a command that is known only for a finding at hand. The value is the word in docs/findings.md."""

    PATH = "PATH"  # the partition or the log directory
    PATH_AWAY = "PATH_AWAY"  # a path for it outside its parent directory
    FILE = "FILE"  # the file of the finding
    FILE_AWAY = "FILE_AWAY"
    FILE_ASIDE = "FILE_ASIDE"  # a name beside it, which brokers ignore
    BATCH_BYTES = "BYTES"
    USER = "USER"
    METADATA_DIRECTORY = "DIR"  # that only the administrator knows
    RUN = "RUN"


Argv: TypeAlias = "tuple[str | Word, ...]"


class Step(NamedTuple):
    """A sentence of advice, or a main clause, perhaps with commands.

    `words`: what to do, or what the command is for. `effect`: what the command does, without its subject, which is the
    command. `also`: further commands with the same effect. `end` separates the step from the next step.

    `is_needed` False: it says that nothing has to be done.
    """

    words: str
    argv: Argv = ()
    effect: str = ""
    end: str = ". "
    when: str = ""
    also: tuple[Argv, ...] = ()
    is_needed: bool = True

    @property
    def commands(self) -> tuple[Argv, ...]:
        """All commands of the step."""
        return (self.argv, *self.also) if self.argv else ()

    @property
    def text(self) -> str:
        """The step as text, with each command in backticks."""
        quoted = [f"`{command_line(argv)}`" for argv in self.commands]
        if len(quoted) > 1:
            quoted = [", ".join(quoted[:-1]), quoted[-1]]
        clause = " ".join(filter(None, (" and ".join(quoted), self.effect)))
        clause = ": ".join(filter(None, (self.words, clause)))
        return ", ".join(filter(None, (self.when, clause)))

    @property
    def reason(self) -> str:
        """Why to run the commands: the step as text that stands beside each of them."""
        return ", ".join(filter(None, (self.when, self.words, self.effect)))

    @property
    def leads_on(self) -> bool:
        """Whether the next step belongs to it: it does not end a sentence."""
        return self.end != ". "

    @property
    def shares_condition(self) -> bool:
        """Whether `when` is also the condition of the next step, which goes on with the sentence."""
        return self.end in {", ", ", and "}

    @property
    def recovers(self) -> bool:
        """Whether its command is `kafkalog recover`, in any form."""
        return self.argv[:2] == RECOVER[:2]

    @property
    def repairs(self) -> bool:
        """Whether its command changes a log as a broker's recovery does."""
        return self.recovers and "--salvage" not in self.argv

    @property
    def replaces(self) -> bool:
        """Whether its command moves a partition's directory away, or repairs it."""
        return self.argv == MOVE_AWAY or self.argv[:3] == RECOVER


class ByReplicas(NamedTuple):
    """A step that depends on whether other replicas are in sync: `alone` is for the last replica in sync."""

    alone: tuple[Step, ...]
    others: tuple[Step, ...]

    @property
    def both(self) -> tuple[Step, ...]:
        """Both alternatives, for a partition whose replicas are not known."""
        return (
            *on_condition("if no other replica is in sync", self.alone),
            *on_condition("If another replica is in sync", self.others),
        )

    def known(self, replication: Replication) -> tuple[Step, ...] | None:
        """Return the step for these replicas; None if the metadata log does not decide between the two."""
        here = replication.broker_id
        if here is None and len(replication.replicas) > 1:
            return None
        others = ", ".join(str(broker) for broker in replication.isr if broker != here and here is not None)
        if others:
            return introduced(f"in sync elsewhere ({others})", self.others)
        return introduced("no other replica is in sync", self.alone)


Steps = tuple[Step | ByReplicas, ...]


def nothing(why: str = "", end: str = ". ") -> Step:
    """Return the step that nothing has to be done."""
    return Step(f"nothing has to be done{why}", end=end, is_needed=False)


def path_word(path: str) -> str:
    """Return a path as a word of a command: a leading dash would make it an option."""
    return f"./{path}" if path.startswith("-") else path


def compare_command(path: str, other: str) -> Argv:
    """Return the command that compares two directories."""
    return ("kafkalog", "verify", path_word(path), "--against", path_word(other))


def on_condition(when: str, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return the steps, the first with a condition."""
    first = steps[0]
    return (first._replace(when=f"{when}, {first.when}" if first.when else when), *steps[1:])


def introduced(why: str, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return the steps, the first after a clause that gives its cause."""
    first = steps[0]
    return (first._replace(words=f"{why}: {first.words}" if first.words else why), *steps[1:])


def together(commands: Sequence[Argv], effect: str, when: str = "") -> Step:
    """Return one step with several commands; `effect` is what they do together."""
    return Step("", commands[0], effect, when=when, also=tuple(commands[1:]))


def words_of(argv: Iterable[str | Word]) -> tuple[str, ...]:
    """Return the words of a command, with the names of those that are not known."""
    return tuple(word.value if isinstance(word, Word) else word for word in argv)


def command_line(argv: Iterable[str | Word]) -> str:
    """Return a command as a line that can be pasted into a shell."""
    return " ".join(map(as_typed, words_of(argv)))


def flat(steps: Steps) -> Iterator[Step]:
    """Yield the steps, with both alternatives of those that depend on replicas."""
    for step in steps:
        yield from step.both if isinstance(step, ByReplicas) else (step,)


def text_of(steps: Steps) -> str:
    """Return steps as text."""
    flat_steps = [*flat(steps)]
    return "".join(f"{step.text}{step.end}" for step in flat_steps[:-1]) + "".join(
        step.text for step in flat_steps[-1:]
    )


RECOVER: Argv = ("kafkalog", "recover", Word.PATH)
REBUILD_INDEXES: Argv = (*RECOVER, "--indexes-only")
COPY_BATCHES: Argv = (*RECOVER, "--salvage", "salvaged")
VERIFY: Argv = ("kafkalog", "verify", Word.PATH)
MOVE_AWAY: Argv = ("mv", "-nT", Word.PATH, Word.PATH_AWAY)
MOVE_ASIDE: Argv = ("mv", "-nT", Word.FILE, Word.FILE_ASIDE)
KEEP_A_COPY: Argv = ("cp", "-a", Word.PATH, Word.PATH_AWAY)

REPLICATE = (
    Step("stop the broker and move the directory away", MOVE_AWAY),
    Step("The broker replicates the partition when it starts"),
)
SALVAGE = ByReplicas((Step("copy the readable batches to ./salvaged", COPY_BATCHES),), REPLICATE)
"""For damage that `recover` does not repair, because valid batches follow it."""

NO_COPY_OF_07 = (
    Step(
        "nothing can be done to the file: offsets of Kafka 0.7 are byte positions, which a copy without the damage"
        " would change",
        is_needed=False,
    ),
    Step("", ("kafkalog", "read", Word.PATH), "prints the messages that can be read"),
)
"""As SALVAGE, for a partition of Kafka 0.7."""

EPOCHS_STAY = ByReplicas(
    (nothing(": consumers get the records as they are, and a copy has the same epochs"),), REPLICATE
)
CUT_ACKNOWLEDGED = ByReplicas((Step("", RECOVER, "cuts it off and keeps the bytes"),), REPLICATE)
LOWER_WATERMARK = ByReplicas(
    (Step("", RECOVER, "lowers the line as a broker would"),),
    (
        Step("start their brokers before this broker"),
        Step("", RECOVER, "lowers the line, as this broker would"),
    ),
)
MOVE_OUT = (Step("move it out of the log directory, before a broker starts", MOVE_AWAY),)
MOVE_OUT_NEXT = Step("Move it out of the log directory, before a broker starts", MOVE_AWAY)
AS_A_NODE = (Step("", VERIFY, "says what the node does with its metadata log, and which steps are safe"),)


def for_replicas(steps: Steps, replication: Replication | None) -> Steps:
    """Return the steps, with the alternatives that depend on replicas decided if the replicas are known."""
    decided: list[Step | ByReplicas] = []
    for step in steps:
        known = step.known(replication) if isinstance(step, ByReplicas) and replication is not None else None
        decided += (step,) if known is None else known
    return tuple(decided)


def fill_in_paths(steps: Steps, path: str, file: str, metadata: str | None = None) -> Steps:
    """Return the steps with the words of their commands filled in.

    `path`: the partition or the log directory. `metadata`: the value of `--metadata`, which is added to commands that
    read the metadata log.
    """
    directory = directory_name(path)
    if directory.is_metadata_log and any(step.replaces for step in flat(steps)):
        steps = AS_A_NODE  # the steps of an ordinary partition would leave a node without its vote and its snapshots
    if directory.topic is None:  # no broker replicates a directory of another name
        alone = (one.alone if isinstance(one, ByReplicas) and one.others == REPLICATE else (one,) for one in steps)
        steps = tuple(step for found in alone for step in found)
    option = () if metadata is None else ("--metadata", path_word(metadata))

    def fill(argv: Argv) -> Argv:
        reads_metadata = argv[:3] in {RECOVER, VERIFY} and "--metadata" not in argv
        words = argv + option if reads_metadata else argv
        return tuple(_path_of(word, path, file) if isinstance(word, Word) else word for word in words)

    return _each_command(steps, fill)


def _path_of(word: Word, path: str, file: str) -> str | Word:
    """Return the path that a word stands for; the word itself if it stands for something else."""
    if word is Word.PATH:
        return path_word(path)
    if word is Word.FILE:
        return path_word(file)
    if word is Word.FILE_ASIDE:
        return path_word(f"{file}.aside")
    if word in {Word.PATH_AWAY, Word.FILE_AWAY}:
        return path_word(place_outside(path if word is Word.PATH_AWAY else file))
    return word


def with_word(steps: Steps, word: Word, text: str) -> Steps:
    """Return the steps with one word of their commands filled in."""
    return _each_command(steps, lambda argv: tuple(text if one is word else one for one in argv))


def _each_command(steps: Steps, change: Callable[[Argv], Argv]) -> Steps:
    def changed(step: Step) -> Step:
        return step._replace(argv=change(step.argv), also=tuple(map(change, step.also))) if step.argv else step

    return tuple(
        ByReplicas(tuple(map(changed, one.alone)), tuple(map(changed, one.others)))
        if isinstance(one, ByReplicas)
        else changed(one)
        for one in steps
    )


def with_next_steps(
    path: str, remarks: Iterable[Remark], replication: Replication | None, metadata: str | None
) -> tuple[Remark, ...]:
    """Return the remarks on the partition at `path` with their steps decided and filled in."""
    return tuple(
        remark._replace(steps=fill_in_paths(for_replicas(remark.steps, replication), path, remark.path, metadata))
        for remark in remarks
    )


def recover_command(path: str, log_dir: str | None, settings: SettingsSource) -> Argv:
    """Return the command `kafkalog recover` for the partition at `path`.

    It names the metadata log, unless kafkalog finds the metadata log by itself. Raises as `SettingsSource.metadata`.
    """
    option: str | Word | None = settings.metadata_option
    if option is None and settings.metadata(log_dir) is None:
        option = Word.METADATA_DIRECTORY
    word = path_word(option) if isinstance(option, str) else option
    return ("kafkalog", "recover", path_word(path), *(() if word is None else ("--metadata", word)))

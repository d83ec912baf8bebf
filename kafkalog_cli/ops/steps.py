"""Next steps as values: sentences, each with at most one command, of findings, plans and `doctor`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    """A sentence, or a part of one, with at most one command. `end` separates it from the next step.

    `is_needed` False: it says that nothing has to be done. `is_condition`: `before` is the condition of all commands in
    the sentence.
    """

    before: str
    argv: Argv = ()
    after: str = ""
    end: str = ". "
    is_needed: bool = True
    is_condition: bool = False

    @property
    def ends_sentence(self) -> bool:
        """Whether the next step begins a sentence, or a main clause."""
        return self.end in _SENTENCE_ENDS

    @property
    def text(self) -> str:
        """The step as text, with the command in backticks."""
        return f"{self.before}`{command_line(self.argv)}`{self.after}" if self.argv else self.before + self.after

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


_SENTENCE_ENDS = (". ", ". Then ", "; ")


class ByReplicas(NamedTuple):
    """A step that depends on whether other replicas are in sync: `alone` is for the last replica in sync."""

    alone: tuple[Step, ...]
    others: tuple[Step, ...]

    @property
    def both(self) -> tuple[Step, ...]:
        """Both alternatives, for a partition whose replicas are not known."""
        first = (Step("if no other replica is in sync", end=", ", is_condition=True), *self.alone)
        return (*first, Step("If another replica is in sync", end=", ", is_condition=True), *self.others)

    def known(self, replication: Replication) -> tuple[Step, ...] | None:
        """Return the steps for these replicas; None if the metadata log does not decide between the two."""
        here = replication.broker_id
        if here is None and len(replication.replicas) > 1:
            return None
        others = ", ".join(str(broker) for broker in replication.isr if broker != here and here is not None)
        if others:
            return (Step(f"in sync elsewhere ({others})", end=": "), *self.others)
        return (Step("no other replica is in sync", end=": "), *self.alone)


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


def all_of(commands: Sequence[Argv], after: str, before: str = "") -> tuple[Step, ...]:
    """Return one sentence with several commands; `before` is a condition, `after` says what they do together."""
    ends = [*[", "] * (len(commands) - 2), " and ", ". "][-len(commands) :]
    found = [Step("", argv, end=end) for argv, end in zip(commands, ends, strict=True)]
    found[0] = found[0]._replace(before=before, is_condition=bool(before))
    found[-1] = found[-1]._replace(after=after)
    return tuple(found)


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
    found = [*flat(steps)]
    return "".join(f"{step.text}{step.end}" for step in found[:-1]) + "".join(step.text for step in found[-1:])


RECOVER: Argv = ("kafkalog", "recover", Word.PATH)
REBUILD_INDEXES: Argv = (*RECOVER, "--indexes-only")
COPY_BATCHES: Argv = (*RECOVER, "--salvage", "salvaged")
VERIFY: Argv = ("kafkalog", "verify", Word.PATH)
MOVE_AWAY: Argv = ("mv", "-nT", Word.PATH, Word.PATH_AWAY)
MOVE_ASIDE: Argv = ("mv", "-nT", Word.FILE, Word.FILE_ASIDE)
KEEP_A_COPY: Argv = ("cp", "-a", Word.PATH, Word.PATH_AWAY)

REPLICATE = (
    Step("stop the broker and move the directory away: ", MOVE_AWAY),
    Step("The broker replicates the partition when it starts"),
)
SALVAGE = ByReplicas((Step("copy the readable batches to ./salvaged: ", COPY_BATCHES),), REPLICATE)
"""For damage that `recover` does not repair, because valid batches follow it."""

NO_COPY_OF_07 = (
    Step(
        "nothing can be done to the file: offsets of Kafka 0.7 are byte positions, which a copy without the damage"
        " would change",
        is_needed=False,
    ),
    Step("", ("kafkalog", "read", Word.PATH), " prints the messages that can be read"),
)
"""As SALVAGE, for a partition of Kafka 0.7."""

EPOCHS_STAY = ByReplicas(
    (nothing(": consumers get the records as they are, and a copy has the same epochs"),), REPLICATE
)
CUT_ACKNOWLEDGED = ByReplicas((Step("", RECOVER, " cuts it off and keeps the bytes"),), REPLICATE)
LOWER_WATERMARK = ByReplicas(
    (Step("", RECOVER, " lowers the line as a broker would"),),
    (
        Step("start their brokers before this broker"),
        Step("", RECOVER, " lowers the line, as this broker would"),
    ),
)
MOVE_OUT = (Step("move it out of the log directory, before a broker starts: ", MOVE_AWAY),)
MOVE_OUT_NEXT = Step("Move it out of the log directory, before a broker starts: ", MOVE_AWAY)
AS_A_NODE = (Step("", VERIFY, " says what the node does with its metadata log, and which steps are safe"),)


def for_replicas(steps: Steps, replication: Replication | None) -> Steps:
    """Return the steps, with the alternatives that depend on replicas decided if the replicas are known."""
    decided: list[Step | ByReplicas] = []
    for step in steps:
        known = step.known(replication) if isinstance(step, ByReplicas) and replication is not None else None
        decided += (step,) if known is None else known
    return tuple(decided)


def filled(steps: Steps, path: str, file: str, metadata: str | None = None) -> Steps:
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
    words = {
        Word.PATH: path_word(path),
        Word.PATH_AWAY: path_word(place_outside(path)),
        Word.FILE: path_word(file),
        Word.FILE_AWAY: path_word(place_outside(file)),
        Word.FILE_ASIDE: path_word(f"{file}.aside"),
    }
    option = () if metadata is None else ("--metadata", path_word(metadata))

    def fill(step: Step) -> Step:
        reads_metadata = step.argv[:3] in {RECOVER, VERIFY} and "--metadata" not in step.argv
        return _with_words(step._replace(argv=step.argv + option) if reads_metadata else step, words)

    return _each(steps, fill)


def with_word(steps: Steps, word: Word, text: str) -> Steps:
    """Return the steps with one word of their commands filled in."""
    return _each(steps, lambda step: _with_words(step, {word: text}))


def _with_words(step: Step, words: Mapping[Word, str]) -> Step:
    argv = (words.get(word, word) if isinstance(word, Word) else word for word in step.argv)
    return step._replace(argv=tuple(argv)) if step.argv else step


def _each(steps: Steps, change: Callable[[Step], Step]) -> Steps:
    return tuple(
        ByReplicas(tuple(map(change, one.alone)), tuple(map(change, one.others)))
        if isinstance(one, ByReplicas)
        else change(one)
        for one in steps
    )


def with_next_steps(
    path: str, remarks: Iterable[Remark], replication: Replication | None, metadata: str | None
) -> tuple[Remark, ...]:
    """Return the remarks on the partition at `path` with their steps decided and filled in."""
    return tuple(
        one._replace(steps=filled(for_replicas(one.steps, replication), path, one.path, metadata)) for one in remarks
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

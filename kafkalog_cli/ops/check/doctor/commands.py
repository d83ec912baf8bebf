"""The next commands of an operator: the changes of each, how that is undone, and their order, the safest first.

The commands of a page about a line of a broker's log get the paths of the disk at hand.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, unique
from typing import Annotated, ClassVar

from kafkalog_cli.disk.names import DirectoryKind, place_outside
from kafkalog_cli.errors import shell_word
from kafkalog_cli.log.partition import PartitionPath
from kafkalog_cli.ops.check.doctor.broker_pages import BrokerMessage
from kafkalog_cli.ops.steps import Step, Steps, command_line, flat, text_of, words_of
from kafkalog_cli.results import (
    EMPTY_IS_NULL,
    GIVEN,
    NULL_IF_EMPTY,
    Before,
    Count,
    Hidden,
    Named,
    lower_names,
    of,
    result,
)

LOG_DIR = "/var/lib/kafka/data"
PARTITION = f"{LOG_DIR}/orders-0"
METADATA_DIR = "/var/lib/kafka/metadata"
OTHER_DIR = "/var/lib/kafka/copy"
COPY = f"{OTHER_DIR}/orders-0"
BROKER_CONFIG = "/etc/kafka/server.properties"
"""The paths in the commands of the pages, which get those of the disk at hand."""


@unique
class Effect(IntEnum):
    """The extent of a command's changes, the safest first."""

    NOTHING = 0
    COPIES = 1  # writes only what was not there before
    REVERSIBLE = 2  # changes the log directory, and can be undone
    PERMANENT = 3

    @property
    def is_reversible(self) -> bool:
        """Whether the state before the command can be restored, or does not change."""
        return self is not Effect.PERMANENT


@result("kafkalog.next-command/1")
@dataclass(frozen=True, slots=True)
class NextCommand:
    """A command to run next.

    Without words it is a step that is done by hand. `undo` is how its change is taken back, in words; "" if nothing is
    changed, or nothing can be taken back. `findings` is the number of findings that name it.
    """

    number: ClassVar[Annotated[int, "the place in the list, from 1; the safest commands come first"]] = GIVEN
    argv: Hidden[tuple[str, ...]]
    words: ClassVar[
        Annotated[
            tuple[str, ...] | None,
            Named("argv"),
            EMPTY_IS_NULL,
            "the words of the command; null for a step by hand, which `why` explains",
        ]
    ] = of("argv")
    why: str
    reversible: ClassVar[Annotated[bool, "whether nothing is changed, or the change can be undone"]] = of(
        "effect.is_reversible"
    )
    findings: Annotated[Count, "findings that name the command"] = 1

    @property
    def effect(
        self,
    ) -> Annotated[
        Effect,
        lower_names(*Effect),
        Before("reversible"),
        "what it changes; copies: it writes only new files elsewhere",
    ]:
        """The extent of the changes. A step by hand counts as permanent, because nothing is known about it."""
        return effect_of(self.argv) if self.argv else Effect.PERMANENT

    @property
    def line(self) -> str:
        """The command as a line for a shell."""
        return command_line(self.argv)

    @property
    def undo(self) -> Annotated[str, NULL_IF_EMPTY, Before("findings"), "how the change is undone"]:
        """How the change is taken back."""
        return _undo(self.argv) if self.effect is Effect.REVERSIBLE else ""


_READING_VERBS = frozenset({
    "ls", "read", "lookup-offset", "lookup-time", "dump-log", "dump-index", "groups", "transactions", "cluster", "find",
    "stats", "inspect", "verify", "doctor", "sql",
})  # fmt: skip
_JOURNALED_VERBS = frozenset({"recover", "append", "roll", "retain", "compact", "delete-records", "truncate"})
_READING_PROGRAMS = frozenset({"ls", "cat", "findmnt", "fuser", "dmesg", "find", "df", "lsof"})


def effect_of(argv: Sequence[str]) -> Effect:
    """Return the extent of a command's changes; a command that is not known here counts as permanent."""
    program, *arguments = argv
    if program == "sudo":
        return effect_of(arguments) if arguments else Effect.PERMANENT
    if program == "kafkalog":
        return _effect_of_verb(arguments)
    if program in _READING_PROGRAMS:
        return Effect.PERMANENT if {"-delete", "-exec"} & {*arguments} else Effect.NOTHING
    if program == "cp":
        return Effect.COPIES
    if program == "mv" or (program == "sed" and any(one.startswith("-i.") for one in arguments)):
        return Effect.REVERSIBLE
    return Effect.PERMANENT


def _effect_of_verb(arguments: Sequence[str]) -> Effect:
    verb = arguments[0] if arguments else ""
    if verb in _READING_VERBS or "--dry-run" in arguments:
        return Effect.NOTHING
    if verb == "recover" and "--salvage" in arguments:
        return Effect.COPIES
    return Effect.REVERSIBLE if verb in _JOURNALED_VERBS and "--discard" not in arguments else Effect.PERMANENT


def _undo(argv: Sequence[str]) -> str:
    program, *arguments = argv
    if program == "sudo":
        return _undo(arguments)
    paths = [one for one in arguments if not one.startswith("-")]
    if program == "mv":
        return f"mv -nT {shell_word(paths[-1])} {shell_word(paths[-2])}"
    if program == "sed":
        return f"mv {shell_word(paths[-1] + '.aside')} {shell_word(paths[-1])}"
    return f"kafkalog undo {shell_word(paths[1])} RUN, with the RUN that the command prints"


def commands_in(steps: Steps) -> Iterator[NextCommand]:
    """Yield the commands of next steps, each once, with the reason to run it.

    A step without a command belongs to the command before it, or to the next one if it leads on to that. Steps without
    any command are one step by hand, unless they say that nothing has to be done.
    """
    found = [*flat(steps)]
    reasons: dict[tuple[str, ...], list[Step]] = {}
    pending: list[Step] = []
    latest: list[Step] | None = None  # the reason of the command before
    when = ""
    for step in found:
        here = step if step.when else step._replace(when=when)
        when = here.when if step.shares_condition else ""
        for argv in map(words_of, step.commands):
            is_new = argv not in reasons
            latest = reasons.setdefault(argv, [])
            latest += [*pending, here] if is_new else pending
            pending = []
        if not step.commands:
            pending.append(here)
        if latest is not None and (not step.leads_on or step is found[-1]):
            latest += pending
            pending = []
    if found and found[0].is_needed and not reasons:
        yield NextCommand((), text_of(steps))
    for argv, named in reasons.items():
        yield NextCommand(argv, "".join(_reason(named)))


def _reason(steps: Iterable[Step]) -> Iterator[str]:
    """Yield the reasons of steps, each after the end of the one before."""
    end = ""
    for step in steps:
        if step.reason:
            stands_alone = end and step.reason == step.effect
            yield f". This {step.reason}" if stands_alone else f"{end}{step.reason}"
            end = step.end


def in_safe_order(commands: Iterable[NextCommand]) -> tuple[NextCommand, ...]:
    """Return the commands, each once, the safest first; steps by hand are last.

    A command that changes partitions comes after its dry run.
    """
    found: dict[tuple[str, ...] | str, NextCommand] = {}
    for command in commands:
        key = command.argv or command.why
        known = found.get(key)
        found[key] = command if known is None else replace(known, findings=known.findings + command.findings)
    for command in [*found.values()]:
        if command.effect is Effect.REVERSIBLE and command.argv[0] == "kafkalog":
            trial = (*command.argv, "--dry-run")
            found.setdefault(trial, NextCommand(trial, "prints what the command without --dry-run would change", 0))
    return tuple(sorted(found.values(), key=lambda one: (not one.argv, one.effect)))


_NAME = re.compile(r"[A-Za-z0-9._-]+")
_PATH = re.compile(r"/[^\s,:;'\"()\[\]]+")
_WHOLE_DIRECTORY = ("verify", "recover", "ls")
"""Verbs that take a log directory where the partition is not known."""


@dataclass(frozen=True, slots=True)
class MessagePlaces:
    """The paths for the commands of a page; None for a path that is not known."""

    log_dir: str
    partition: PartitionPath | None = None
    other: str | None = None
    metadata: str | None = None
    broker_config: str | None = None

    @classmethod
    def of(
        cls,
        log_dir: str,
        directories: Iterable[PartitionPath],
        text: str,
        metadata: str | None = None,
        broker_config: str | None = None,
    ) -> MessagePlaces:
        """Return the paths for a text. The partition is the first one of the log directory that the text names."""
        by_name = {one.directory.name: one for one in directories if one.directory.kind is DirectoryKind.PARTITION}
        names = (word.rstrip(".") for word in _NAME.findall(text))
        partition = next((by_name[name] for name in names if name in by_name), None)
        return cls(log_dir, partition, _other(partition, text), metadata, broker_config)

    def about(self, directory: PartitionPath) -> MessagePlaces:
        """Return the places for another partition."""
        return MessagePlaces(self.log_dir, directory, None, self.metadata, self.broker_config)


def _other(partition: PartitionPath | None, text: str) -> str | None:
    """Return the path of a second directory of the partition that a text names; None if it names none."""
    if partition is None:
        return None
    paths = [path.rstrip("./") for path in _PATH.findall(text)]
    own = os.path.abspath(partition.path)  # noqa: PTH100 (links are not followed)
    twins = [path for path in paths if path.endswith(f"/{partition.directory.name}") and path != own]
    return twins[-1] if twins else None


def _copy_of(places: MessagePlaces) -> str | None:
    """Return a path for a copy of the partition."""
    return None if places.partition is None else place_outside(places.partition.path)


def commands_of_page(message: BrokerMessage, places: MessagePlaces) -> Iterator[NextCommand]:
    """Yield the commands of a page, without commands that need an unknown path."""
    for step in message.steps:
        argv = _with_places(shlex.split(step.command), places)
        if argv is not None:
            yield NextCommand(argv, step.why, 0)


def _with_places(words: list[str], places: MessagePlaces) -> tuple[str, ...] | None:
    """Return the words of a command with the known paths; None if a path is not known."""
    partition, verb = places.partition, words[1] if len(words) > 1 else ""
    if partition is None and PARTITION in words and verb in _WHOLE_DIRECTORY and "--against" not in words:
        words = [LOG_DIR if word == PARTITION else word for word in words]
    topic = None if partition is None else partition.directory.topic
    if "--topic" in words:
        if topic is None:
            return None
        words = [topic if words[at - 1] == "--topic" else word for at, word in enumerate(words)]
    values = {
        COPY: _copy_of(places) if words[0] == "cp" else places.other,
        OTHER_DIR: places.other if partition is None else None,
        PARTITION: None if partition is None else partition.path,
        METADATA_DIR: places.metadata,
        BROKER_CONFIG: places.broker_config,
        LOG_DIR: places.log_dir,
    }
    found = []
    for word in words:
        prefix = next((one for one in values if word == one or word.startswith(f"{one}/")), None)
        if prefix is None:
            found.append(word)
            continue
        value = values[prefix]
        if value is None:
            return None
        found.append(f"{value.rstrip('/')}{word.removeprefix(prefix)}")
    return tuple(found)

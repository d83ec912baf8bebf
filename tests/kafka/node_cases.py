"""Cases for a node: a log directory, damage to it, what verify and doctor print of it, what a real node does.

Two things are compared: what is printed with the start of the node, and the state after the printed commands and a start
with the state after a start alone.
"""

import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.kafka.node_damage import FAMILIES, FAMILY, KINDS
from tests.kafka.nodes import BASES, METADATA, OTHER_USER, SERVED, Base, batches_below, copy
from tests.support.commands import everything, json_of, kafkalog
from tests.support.product_kafka import DirectoryKind, classify_directory

MOST_ROUNDS = 6
OF_REPLICAS = re.compile(
    r"[Ii]f another (replica|voter)|[Ii]f (there are )?other voters|while the other voters|another replica is in sync"
)
"""The condition of a step that does not hold here, as each partition has one replica, and the quorum one voter."""
LESS = "the printed commands leave less: "


class Case(NamedTuple):
    seed: int
    base: Base
    damages: tuple
    """(kind, seed) of each damage."""

    def __str__(self):
        return f"{self.seed} {self.base.name} {[name for name, _ in self.damages]}"

    @property
    def as_other_user(self):
        return any(FAMILY[name] == "perms" for name, _ in self.damages)

    def damage(self, data):
        if self.as_other_user:
            for path in [data, *data.rglob("*")]:
                os.chown(path, OTHER_USER, OTHER_USER)
        for name, seed in self.damages:
            KINDS[name](Random(seed), data)
            if self.as_other_user and FAMILY[name] != "perms":
                give_new_files(data)


def give_new_files(data):
    """What an earlier damage made anew belongs to the user of the node."""
    for path in [data, *data.rglob("*")]:
        if path.lstat().st_uid == 0:
            os.chown(path, OTHER_USER, OTHER_USER)


def make_case(seed, families=tuple(FAMILIES)):
    """A case of a seed: of each family as often as of the others."""
    chance = Random(seed)
    names = [chance.choice(FAMILIES[chance.choice(families)]).__name__ for _ in range(chance.choice([1, 1, 1, 2]))]
    names.sort(key=lambda name: FAMILY[name] == "perms")
    return Case(seed, chance.choice(BASES), tuple((name, chance.randrange(1 << 32)) for name in names))


class Before(NamedTuple):
    """The batches of all partitions, and the names of their directories, as they were."""

    batches: frozenset
    directories: frozenset

    @classmethod
    def of(cls, data):
        names = (path.name for path in data.iterdir() if path.is_dir() and path.name != METADATA)
        kinds = {name: classify_directory(name).kind for name in names}
        directories = frozenset(name for name, kind in kinds.items() if kind is DirectoryKind.PARTITION)
        return cls(batches_below(data.parent), directories)


class Printed(NamedTuple):
    """What `verify` and `doctor` print of a log directory."""

    code: int
    findings: list
    steps: list
    commands: list

    def of_start(self, data, before):
        """The same for a node that starts without the metadata log, if steps name both ways in which that may end."""
        if METADATA not in self.of(data, "sets-aside"):
            return self
        steps = [step for step in self.steps if inside(data, step["path"]) != METADATA]
        steps += [
            {"action": "sets-aside", "path": f"{data}/{name}", "message": "", "ends_start": False}
            for name in before.directories
        ]
        return self._replace(steps=steps)

    @property
    def ends(self):
        """The steps by which the node does not serve clients."""
        return [step for step in self.steps if step["ends_start"]]

    def of(self, data, *actions):
        """Names of what is in the log directory of which a step of these kinds is printed, orders-00 as orders-0."""
        names = (classify_directory(inside(data, step["path"])) for step in self.steps if step["action"] in actions)
        is_partition = DirectoryKind.PARTITION
        return {f"{one.topic}-{one.partition}" if one.kind is is_partition else one.name for one in names}

    def about(self, data, copied):
        """The same of a copy, with the paths there."""
        lines = json.dumps(self.commands).replace(str(data.parent), str(copied.parent))
        return self._replace(commands=json.loads(lines))

    @property
    def warnings(self):
        return [one for one in self.findings if one["severity"] != "info"]


def inside(data, path):
    """The first name of a path below the log directory; "" for the directory itself."""
    return os.path.relpath(path, data).split("/")[0] if Path(path) != data else ""


def printed(data, properties):
    """What is printed with the server.properties of the node, as its operator has it."""
    code, objects, _ = json_of("verify", str(data), "--broker-config", str(properties))
    findings = [one for one in objects if one["type"] == "finding"]
    _, objects, _ = json_of("doctor", str(data), "--broker-config", str(properties))
    steps = [one for one in objects if one["type"] == "start-step"]
    commands = [one for one in objects if one["type"] == "next-command"]
    return Printed(code, findings, steps, commands)


# -- (a) what is printed, and what the node did


def differences(data, before, told, start):
    """What differs between the output about `data`, which was as `before`, and the start of a node."""
    if start.end != SERVED:
        yield from of_no_start(told, start)
        return
    told = told.of_start(data, before)
    served = {f"{topic}-{number}": facts[1] for (topic, number), facts in start.served.items()}
    works = any(isinstance(offset, int) for offset in served.values())
    wrong = [step for step in told.ends if works or step["action"] != "takes-offline"]
    if wrong:
        yield f"the node starts, and doctor prints: {[step['path'] + ': ' + step['message'] for step in wrong]}"
    aside = {name for name in told.of(data, "sets-aside") if not name.endswith("-stray")}
    if start.aside != aside:
        yield f"set aside: the node {sorted(start.aside)}, doctor {sorted(aside)}"
    unknown = {cut for cut in start.cuts if cut[0] not in told.of(data, "cuts", "removes")}
    if unknown:
        yield f"the node cuts {sorted(unknown)}, and doctor has no step for that"
    yield from of_metadata_cut(data, told, start)
    lost = {f"{topic}-{number}" for topic, number, *_ in before.batches - start.records}
    named = told.of(data, "cuts", "removes", "sets-aside", "resets", "deletes")
    silent = {partition for partition in lost if not any(partition in one for one in named)}
    if silent:
        yield f"batches are lost without a step: {sorted(silent)}"
    errors = [name for name, offset in sorted(served.items()) if isinstance(offset, str) and (data / name).is_dir()]
    seen = {"sets aside": start.aside, "cuts": start.cuts, "loses batches of": lost, "does not serve": errors}
    if told.code == 0 and any(seen.values()):
        yield f"verify exits 0, and the node {', '.join(f'{how} {sorted(what)}' for how, what in seen.items() if what)}"
    if not start.served and not aside:
        yield "the node starts and knows no topic, and doctor prints no step for that"


def of_metadata_cut(data, told, start):
    """The offset at which the node cuts the metadata log, and those of the steps."""
    cuts = {offset for folder, offset in start.cuts if folder == METADATA}
    steps = [step for step in told.steps if step["action"] == "cuts" and inside(data, step["path"]) == METADATA]
    offsets = {int(number) for step in steps for number in re.findall(r"metadata log at offset (\d+)", step["message"])}
    begins_anew = any("begins it anew" in step["message"] for step in steps)
    if offsets and offsets != cuts and not begins_anew:
        yield f"the node cuts the metadata log at {sorted(cuts)}, doctor prints {sorted(offsets)}"


def of_no_start(told, start):
    if not told.ends:
        yield f"the node {start.end}, and doctor has no step for that: {reason(start)}"
    if told.code == 0:
        yield f"the node {start.end}, and verify exits 0: {reason(start)}"
    elif told.code == 3 and all("nothing has to be done" in (one["next_step"] or "") for one in told.warnings):
        yield f"the node {start.end}, and verify prints that nothing has to be done"


def reason(start):
    """The line of the node's log that says why it ended, or what it did last."""
    lines = start.log.splitlines()
    errors = [at for at, line in enumerate(lines) if re.search(r"\] (ERROR|FATAL) |^Exception", line)]
    if not errors:
        return lines[-1][:300] if lines else "?"
    causes = [line for line in lines[errors[0] :] if re.match(r"(Caused by: )?[\w.$]+(Exception|Error|Fault)", line)]
    return f"{lines[errors[0]][26:226]} | {causes[0][:300] if causes else ''}"


# -- (b) what is left after the printed commands


def follow(data, told, properties):
    """Do what is printed, literally, until nothing new is printed; the commands that change something."""
    done = []
    for _ in range(MOST_ROUNDS):
        new = [one for one in told.commands if is_to_do(one) and one["argv"] not in done]
        if not new:
            break
        for one in new:
            done.append(one["argv"])
            execute(one["argv"], data.parent)
        told = printed(data, properties)
    return done


def is_to_do(command):
    is_for_both = "no other replica" in command["why"] and (command["argv"] or [])[:2] == ["kafkalog", "recover"]
    needs_replica = OF_REPLICAS.search(command["why"]) and not is_for_both
    return command["argv"] and command["effect"] != "nothing" and not needs_replica


def execute(argv, folder):
    words = [*argv]
    if words[0] == "sudo":
        words = words[1:]
    if words[0] == "kafkalog":
        was = Path.cwd()
        os.chdir(folder)
        try:
            kafkalog(*words[1:])
        finally:
            os.chdir(was)
    else:
        subprocess.run(words, cwd=folder, check=False, capture_output=True)


def less(alone, advised):
    """What the start after the printed commands has less than the start alone."""
    if alone.end == SERVED and advised.end != SERVED:
        yield f"{LESS}the node {advised.end}: {reason(advised)}"
        return
    if SERVED not in (alone.end, advised.end):
        if alone.records - advised.records:
            yield f"{LESS}batches of {sorted({one[:2] for one in alone.records - advised.records})}"
        return
    topics = alone.topics - advised.topics
    if topics:
        yield f"{LESS}topics {sorted(topics)}"
    for key, (_, first, after) in sorted(alone.served.items()):
        _, new_first, new_after = advised.served.get(key, (None, "gone", "gone"))
        if isinstance(first, str) or key[0] == "__consumer_offsets":
            continue
        if isinstance(new_first, str) or (after > first and (new_first > first or new_after < after)):
            yield f"{LESS}{key[0]}-{key[1]} had offsets {first} to {after}, now {new_first} to {new_after}"
    missing = {one[:2] for one in alone.records - advised.records}
    if missing:
        yield f"{LESS}batches of {sorted(missing)}"


# -- a case


class Tried(NamedTuple):
    found: list
    end: str
    is_advised: bool
    log: str
    """Of the node that started on the directory as it was."""


def try_case(case, nodes, sources, folder):
    """Try a case below `folder`, which is left for the caller; what differs."""
    alone_in, advised_in = folder / "alone", folder / "advised"
    for home in (alone_in, advised_in):
        home.mkdir(parents=True)
    copy(sources / case.base.name, alone_in / "data")
    case.damage(alone_in / "data")
    copy(alone_in / "data", advised_in / "data")
    return judge(alone_in / "data", advised_in / "data", nodes, case.base.is_dynamic, case.as_other_user)


def judge(data, copied, nodes, is_dynamic, as_other_user=False):
    told, before = printed(data, nodes.properties(data, is_dynamic=is_dynamic)), Before.of(data)
    alone = nodes.start(data, is_dynamic=is_dynamic, as_other_user=as_other_user)
    found = [*differences(data, before, told, alone)]
    unchanged = everything(copied)
    done = follow(copied, told.about(data, copied), nodes.properties(copied, is_dynamic=is_dynamic))
    if everything(copied) != unchanged:
        advised = nodes.start(copied, is_dynamic=is_dynamic, as_other_user=as_other_user)
        found += [f"{line} (after {[shlex.join(argv) for argv in done]})" for line in less(alone, advised)]
    return Tried(found, alone.end, bool(done), alone.log)

"""Cases for roll, retain, truncate and delete-records: a log, settings and a clock; what the real log and ours make."""

import os
import shutil
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.kafka import damage
from tests.kafka.loader_cases import (
    DAY_MS,
    MARKER,
    MARKER_BYTES,
    NOW_MS,
    RealLoader,
    Start,
    contents,
    file_differences,
    write,
)
from tests.support.product import OffsetOutOfRange
from tests.support.product_kafka import OnePartition, is_marker_away

VERBS = ("retain", "roll", "truncate", "delete-records")
EXPIRATION_MS = 2**31 - 1
BROKER = {"producer.id.expiration.ms": str(EXPIRATION_MS)}


class Settled(NamedTuple):
    """A log as a broker leaves it after a clean stop, and finds it again unchanged: files, its start and end."""

    name: str
    files: dict
    log_start: int
    log_end: int

    @property
    def first_base(self):
        return min(bases(self.files))

    @property
    def is_odd(self):
        """Whether indexes or snapshots lie, or bytes are flipped, which a broker does not see after a clean stop."""
        return any(word in self.name for word in ("index", "flip", "swap", "negative", "inside"))


class ChangeCase(NamedTuple):
    """`offset` is that of the verb, `mtimes` are those of the logs, in ms, by name."""

    seed: int
    log: Settled
    verb: str
    settings: dict
    high_watermark: int
    offset: int
    mtimes: dict
    force: bool = False
    arriving_bytes: int = 68
    recovery_point: int | None = None
    """None: the end of the log."""

    @property
    def first_recovery_point(self):
        return self.log.log_end if self.recovery_point is None else self.recovery_point

    def __str__(self):
        words = f"{self.verb} {self.offset} hw={self.high_watermark} force={self.force} bytes={self.arriving_bytes}"
        words += "" if self.recovery_point is None else f" recovery point={self.recovery_point}"
        return f"{self.seed} {self.log.name} [{self.log.log_start}, {self.log.log_end}) {words} {self.settings}"


class Changed(NamedTuple):
    """What came out: files, log start, log end and recovery point, whether it rolled (of roll), refusal.

    `is_disputed`: ours went by the headers of batches, where a broker goes by a time index that says otherwise.
    """

    files: dict | None
    offsets: tuple = ()
    rolled: bool | None = None
    refused: str | None = None
    is_disputed: bool = False


def bases(files):
    return sorted(int(name[:-4]) for name in files if name.endswith(".log") and name[:-4].isdigit())


class RealLogs(RealLoader):
    """A RealLoader that changes logs too (java/ChangeLogs)."""

    def change(self, directory, log, action, settings, *, is_clean=True, recovery_point=None):
        """Open, act, stop: (log start, log end, recovery point, number) or a refusal, as words.

        Without `is_clean` it recovers the whole log first, as after a kill.
        """
        start = log.log_start if log.log_start > log.first_base else 0
        words = [f"{name}={value}" for name, value in settings.items()]
        point = 0 if not is_clean else log.log_end if recovery_point is None else recovery_point
        self._send("change", directory, point, start, int(is_clean), NOW_MS, EXPIRATION_MS, action, *words)
        return self._answer()


def settle(real, source, folder, *, is_clean):
    """The log of a source, loaded and stopped; None if no broker starts with it, or finds it otherwise a second time."""
    files, start = source.files, Start(is_clean, 0, 0, producer_id_expiration_ms=EXPIRATION_MS)
    seen = []
    for _ in range(2):
        directory = write(files, folder / "settle-0")
        real.begin(directory, start)
        outcome = real.outcome(directory)
        shutil.rmtree(directory)
        if outcome.thrown is not None or not bases(outcome.files):
            return None
        log_start, log_end, *_ = outcome.offsets
        first = min(bases(outcome.files))
        seen.append((outcome.files, log_start, log_end))
        files = outcome.files
        start = start._replace(is_clean=True, recovery_point=log_end, log_start=log_start if log_start > first else 0)
    if seen[0][1:] != seen[1][1:] or file_differences(seen[0][0], seen[1][0]):
        return None
    return Settled(source.name, *seen[1])


def killed_log(real, source, folder):
    """The log of a source that was killed; None if a broker cuts something off, or does not start with it."""
    directory = write(source.files, folder / "killed-0")
    answer = real.change(directory, Settled(source.name, source.files, 0, 0), "nothing", INDEXING, is_clean=False)
    after = contents(directory)
    shutil.rmtree(directory)
    is_whole = all(after.get(name) == data for name, data in source.files.items() if name.endswith(".log"))
    return (
        Settled(source.name, source.files, int(answer[1]), int(answer[2])) if answer[0] == "ok" and is_whole else None
    )


INDEXING = {"segment.index.bytes": 4096, "index.interval.bytes": 300}


# -- cases


def make_change(seed, logs):
    chance = Random(seed)
    log = chance.choice(logs)
    verb = VERBS[seed % len(VERBS)]
    starts = bases(log.files)
    near = sorted(
        {max(0, base + shift) for base in starts for shift in (-2, -1, 0, 1, 3)} | {log.log_start, log.log_end}
    )
    sizes = [len(log.files[f"{base:020d}.log"]) for base in starts]
    rests = [sum(sizes[at:]) for at in range(len(sizes) + 1)]
    edges = [chance.choice(rests) + chance.choice([-1, 0, 1, 5]), chance.randrange(sum(sizes) + 2), 0, -1]
    ages = [0, 1, 300, 1_000, 50_000, 500_000, 999_000, DAY_MS, 3 * DAY_MS, -1]
    least = max(len(data) for name, data in log.files.items() if name.endswith("index")) // 24 * 24 + 24
    settings = {
        "internal.segment.bytes": chance.choice([1000, 2000, sizes[-1] + 68, sizes[-1] + 67, 6000, 50_000]),
        "segment.index.bytes": chance.choice([4096, 4096, least, least, least + 8, least + 12]),
        "index.interval.bytes": chance.choice([0, 100, 300, 4096]),
        "cleanup.policy": chance.choice(["delete", "delete", "delete", "compact,delete", "compact"]),
        "retention.bytes": max(-1, chance.choice(edges)),
        "retention.ms": chance.choice(ages),
        "segment.ms": chance.choice([1, 1_000, 100_000, DAY_MS, 30 * DAY_MS]),
    }
    replicated = log.log_end if chance.random() < 0.7 else chance.choice([o for o in near if o >= log.log_start])
    offset = chance.choice(near) if chance.random() < 0.6 else chance.randrange(log.log_start, log.log_end + 3)
    mtimes = {name: NOW_MS - chance.choice([0, 300, 301, 1_001, 600_000, 2 * DAY_MS]) for name in log.files}
    force, arriving = chance.random() < 0.4, chance.choice([68, 68, 500])
    high_watermark = min(replicated, log.log_end)
    point = chance.choice([2**63 - 1, log.log_end + 1, 0]) if chance.random() < 0.1 else None
    return ChangeCase(seed, log, verb, settings, high_watermark, offset, mtimes, force, arriving, point)


def odd_twin(source, seed):
    """The same log with the first set of a segment below the segment's name."""
    kind = "name_inside_wrapper"
    return source._replace(name=f"{source.name} {kind}", files=damage.apply(source.files, [(kind, seed)]))


def dated(directory, mtimes):
    for name, mtime_ms in mtimes.items():
        os.utime(directory / name, ns=(mtime_ms * 1_000_000, mtime_ms * 1_000_000))


# -- the real one


def real_change(case, real, folder, *, is_clean=True):
    """What a broker leaves. After truncating it is started once more: until then it has a log end of its own."""
    directory = write(case.log.files, folder / "real" / "t-0")
    dated(directory, case.mtimes)
    action = {
        "retain": f"retain:{case.high_watermark}",
        "roll": "roll" if case.force else f"roll-if:{case.arriving_bytes}:{NOW_MS}:{case.log.log_end}",
        "truncate": f"truncate:{case.offset}",
        "delete-records": f"delete-records:{case.high_watermark}:{case.offset}",
    }[case.verb]
    settings = dict(case.settings)
    if case.verb == "delete-records":
        settings["cleanup.policy"] = "compact"
    point = case.recovery_point
    answer = real.change(directory, case.log, action, settings, is_clean=is_clean, recovery_point=point)
    if answer[0] != "ok":
        return Changed(None, refused=" ".join(answer[1:]))
    offsets, number = tuple(map(int, answer[1:4])), int(answer[5])
    if case.verb != "truncate":
        return Changed(contents(directory), offsets, bool(number) if case.verb == "roll" else None)
    files = contents(directory)
    log_start = offsets[0] if offsets[0] > min(bases(files)) else 0
    indexing = {name: settings[name] for name in ("segment.index.bytes", "index.interval.bytes")}
    again = Settled(case.log.name, files, log_start, offsets[1])
    answer = real.change(directory, again, "nothing", indexing)
    if answer[0] != "ok":
        return Changed(None, refused=" ".join(answer[1:]))
    return Changed(contents(directory), tuple(map(int, answer[1:4])))


# -- ours


def our_change(case, folder, *, is_clean=True):
    """What ours leaves, with the journal, in a log directory; without `is_clean` there is no marker."""
    root = folder / "log.dir"
    directory = write(case.log.files, root / "t-0")
    dated(directory, case.mtimes)
    (root / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    lines = {"replication": case.high_watermark, "recovery-point": case.first_recovery_point}
    if case.log.log_start > case.log.first_base:
        lines["log-start"] = case.log.log_start
    for name, offset in lines.items():
        (root / f"{name}-offset-checkpoint").write_text(f"0\n1\nt 0 {offset}\n")
    if is_clean:
        (root / MARKER).write_bytes(MARKER_BYTES)
    ours = OnePartition(root, directory, case.settings, BROKER, NOW_MS)
    try:
        plan, rolled, done = VERBS_OF_OURS[case.verb](ours, case)
    except OffsetOutOfRange as error:
        return Changed(None, refused=str(error))
    if plan.is_refused:
        return Changed(None, refused=plan.remarks[0].message)
    assert (root / MARKER).exists() == (is_clean and not is_marker_away(done)), "the marker is elsewhere"
    is_sound = not getattr(plan, "drops_records", False) and not case.log.is_odd
    assert (root / MARKER).exists() or not is_sound or not is_clean, "the marker is lost"
    files = contents(directory)
    log_start = line_of(root, "log-start") or min(bases(files))
    recovery_point = line_of(root, "recovery-point")
    if case.recovery_point is not None:
        recovery_point = plan.log_end_offset  # ours need not touch the line: a broker writes its own when it stops
    assert plan.log_start_offset == log_start, (plan.log_start_offset, log_start)
    assert recovery_point == plan.log_end_offset
    is_disputed = any("KAFKA-10207" in remark.message for remark in plan.remarks)
    return Changed(files, (log_start, plan.log_end_offset, recovery_point), rolled, is_disputed=is_disputed)


VERBS_OF_OURS = {
    "retain": lambda ours, case: ours.retain(explains=case.seed % 3 == 0),
    "roll": lambda ours, case: ours.roll(force=case.force, arriving_bytes=case.arriving_bytes),
    "truncate": lambda ours, case: ours.truncate(case.offset, case.log.log_start, case.log.log_end),
    "delete-records": lambda ours, case: ours.delete_records(case.offset),
}


def line_of(root, name):
    path = root / f"{name}-offset-checkpoint"
    words = path.read_text().split() if path.exists() else []
    return int(words[4]) if len(words) == 5 else None


# -- both


def compare_changes(case, real, folder):
    """(what differs, in words; what the real one made). Works in `folder`, which is empty then and afterwards."""
    theirs = real_change(case, real, folder)
    try:
        ours = our_change(case, folder)
        found = differences(case, ours, theirs)
    except Exception as error:  # (the case is shown, and the next one tried)
        ours, found = None, [f"ours fails: {error!r}"]
    for path in Path(folder).iterdir():
        shutil.rmtree(path)
    return found, ours, theirs


def compare_killed(case, real, folder):
    """As `compare_changes`, of a log whose broker was killed: what each is when a broker has started on it once more.

    Indexes and snapshots are not compared: a broker that recovers the log makes them anew (if they are large enough).
    Nor are epochs where the start moves: the file of a random log may lack what its batches say, and these are gone then.
    """
    case = case._replace(settings={**case.settings, **INDEXING})
    theirs = real_change(case, real, folder, is_clean=False)
    try:
        ours = our_change(case, folder, is_clean=False)
        if ours.refused or theirs.refused:
            found = differences(case, ours, theirs)
        else:
            found = _started_differences(case, real, folder, ours, theirs)
    except Exception as error:  # (the case is shown, and the next one tried)
        ours, found = None, [f"ours fails: {error!r}"]
    for path in Path(folder).iterdir():
        shutil.rmtree(path)
    return found, ours, theirs


def _started_differences(case, real, folder, ours, theirs):
    outcomes = []
    for directory, changed in ((folder / "log.dir" / "t-0", ours), (folder / "real" / "t-0", theirs)):
        log = Settled(case.log.name, contents(directory), *changed.offsets[:2])
        answer = real.change(directory, log, "nothing", INDEXING, is_clean=False)
        kinds = (".log",) if case.verb in ("retain", "delete-records") else (".log", "checkpoint")
        kept = {name: data for name, data in contents(directory).items() if name.endswith(kinds)}
        outcomes.append((answer[:3], kept))
    (our_answer, our_files), (answer, files) = outcomes
    found = [] if our_answer == answer else [f"offsets {our_answer}, real {answer}"]
    return found + file_differences(our_files, files)


def differences(case, ours, theirs):
    if ours.refused or theirs.refused:
        if ours.refused and theirs.refused:
            return []
        return [f"ours {ours.refused or ours.offsets}, real {theirs.refused or theirs.offsets}"]
    if ours.is_disputed and case.log.is_odd:
        return []
    real_files, our_files = dict(theirs.files), dict(ours.files)
    if case.verb == "roll" and not case.log.files[f"{(active := max(bases(case.log.files))):020d}.log"]:
        # A broker makes an empty active segment anew, without the empty transaction index that it may have had.
        real_files = {name: data for name, data in real_files.items() if not name.endswith(".deleted")}
        if not our_files.get(stray := f"{active:020d}.txnindex"):
            our_files.pop(stray, None)
        ours = ours._replace(rolled=theirs.rolled)
    if case.verb == "truncate" and theirs.offsets[0] == theirs.offsets[1]:
        # That of a log without records comes and goes with every start (it is removed, then written as the first).
        name = f"{theirs.offsets[1]:020d}.snapshot"
        real_files.pop(name, None), our_files.pop(name, None)
    found = [] if ours.offsets == theirs.offsets else [f"offsets {ours.offsets}, real {theirs.offsets}"]
    if ours.rolled != theirs.rolled:
        found.append(f"rolled {ours.rolled}, real {theirs.rolled}")
    return found + file_differences(our_files, real_files)

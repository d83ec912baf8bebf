"""Cases for the loader: a log, damage to it, and how a broker starts; what the real loader and ours make of one."""

import re
import shutil
import struct
import subprocess
import traceback
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.crash.log_directories import batch
from tests.kafka import damage
from tests.kafka.class_archives import archived
from tests.kafka.real_kafka import version_of
from tests.support.commands import kafkalog
from tests.support.product_kafka import NotLoaded, load

NOW_MS = 1_795_000_000_000
MOST_SOURCE_BYTES = 1 << 20
DAY_MS = 86_400_000
MARKER = ".kafka_cleanshutdown"
ODD_OFFSETS = (2**63 - 1, 2**63 - 2, 2**40, 2**31, 1, 2**32)
PRODUCER_ENTRY = struct.Struct(">qhiqiqiq")
CHECKPOINTS = ("recovery-point", "log-start")
MALFORMED = {
    "offline: field": b"0\n1\n t 0 5\n",
    "offline: version": b"1\n1\nt 0 5\n",
    "offline: count": b"0\n7\nt 0 5\n",
    "offline: not UTF-8": b"0\n1\nt\xff 0 5\n",
    "zero: number": b"0\n2\nt 0 5\nt 0 x\n",
    "zero: count": b"0\n-1\nt 0 5\n",
    "read: empty": b"",
    "read: no count": b"0\n",
}
MARKER_BYTES = b'{"version":0,"brokerEpoch":7}'


class Source(NamedTuple):
    """A log to begin with; `offsets` are those that a checkpoint might name."""

    name: str
    files: dict
    offsets: tuple


class Start(NamedTuple):
    """How a broker starts: offsets of the checkpoints, 0 where there are none, and settings."""

    is_clean: bool
    recovery_point: int
    log_start: int
    segment_index_bytes: int = 4096
    index_interval_bytes: int = 300
    producer_id_expiration_ms: int = DAY_MS
    is_preallocated: bool = False
    is_tiered: bool = False
    malformed: tuple = ()
    """(checkpoint, how it is malformed) for the command."""
    is_version_a_byte: bool = False
    """Whether the broker is one before Kafka 4.4."""

    def settings(self):
        found = {"segment.index.bytes": self.segment_index_bytes, "index.interval.bytes": self.index_interval_bytes}
        found |= {"remote.storage.enable": "true"} if self.is_tiered else {}
        return found | ({"preallocate": "true", "internal.segment.bytes": 5000} if self.is_preallocated else {})


class Case(NamedTuple):
    seed: int
    source: Source
    damages: list
    start: Start

    def files(self):
        return damage.apply(self.source.files, self.damages)

    def __str__(self):
        return f"{self.seed} {self.source.name} {[name for name, _ in self.damages]} {self.start}"


class Outcome(NamedTuple):
    """What came out: what was thrown (class, message); or log start, log end, recovery point, first unstable offset
    (None: none) and the files."""

    thrown: tuple | None
    offsets: tuple = ()
    files: dict | None = None


# -- logs to begin with


def corpus_sources(corpus):
    """The partitions of the corpus that have a log of today's layout and are not large."""
    found = []
    for path in sorted(corpus.glob("*/*/*-[0-9]*")):
        if path.is_dir() and list(path.glob("*.log")):
            files = contents(path)
            if sum(map(len, files.values())) <= MOST_SOURCE_BYTES:
                found.append(Source(str(path.relative_to(corpus)), files, offsets_in(files)))
    return found


def random_source(real, folder, seed):
    """A log that the real UnifiedLog writes."""
    chance = Random(seed)
    flavour = "x" + "".join(letter for letter in "ptgwoefra" if chance.random() < 0.5)
    settings = {
        "internal.segment.bytes": chance.choice([1000, 2000, 2000, 6000, 50_000]),
        "segment.index.bytes": chance.choice([4096, 4096, 3000]),
        "index.interval.bytes": chance.choice([0, 100, 300, 4096]),
        "preallocate": chance.choice(["false", "false", "true"]),
    }
    directory = folder / "source-0"
    directory.mkdir()
    is_stopped = chance.random() < 0.5
    offsets = real.generate(directory, seed, flavour, settings, is_stopped=is_stopped)
    files = contents(directory)
    shutil.rmtree(directory)
    name = f"random {seed} {flavour} {'stopped' if is_stopped else 'killed'}"
    return Source(name, files, (*offsets, *offsets_in(files)))


def offsets_in(files):
    numbers = {int(number) for name in files if (number := name.split(".")[0]).isdigit()}
    return tuple(sorted(numbers))


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def write(files, directory):
    directory.mkdir(parents=True)
    for name, data in files.items():
        (directory / name).write_bytes(data)
    return directory


# -- cases


def make_case(seed, sources):
    chance = Random(seed)
    source = chance.choice(sources)
    near = [max(0, offset + chance.randrange(-3, 40)) for offset in source.offsets[:30]]
    some = [*source.offsets, *near, chance.randrange(200), 10**6]
    start = Start(
        is_clean=chance.random() < 0.5,
        recovery_point=0 if chance.random() < 0.4 else chance.choice(some),
        log_start=0 if chance.random() < 0.6 else chance.choice(some),
        segment_index_bytes=chance.choice([4096, 4096, 4096, 1 << 20, 256, 48, 13]),
        index_interval_bytes=chance.choice([300, 300, 4096, 100, 0, 1]),
        producer_id_expiration_ms=chance.choice([DAY_MS, 2**31 - 1, 2**31 - 1, 1]),
        is_preallocated=chance.random() < 0.1,
    )
    damages = damage.choose(chance)
    # What came later, so that the cases of earlier runs stay what they were.
    if chance.random() < 0.25:
        start = start._replace(is_tiered=True)
    if chance.random() < 0.1:
        start = start._replace(recovery_point=chance.choice(ODD_OFFSETS))
    if chance.random() < 0.1:
        start = start._replace(log_start=chance.choice(ODD_OFFSETS))
    if chance.random() < 0.3:
        start = start._replace(malformed=(chance.choice(CHECKPOINTS), chance.choice(list(MALFORMED))))
    return Case(seed, source, damages, start)


def txn_index_case(version, kafka_version):
    """A log after a clean stop, with a transaction index of one entry of this version."""
    kinds = ("log", "index", "timeindex", "txnindex")
    contents = (batch(0, 14)[0], b"", b"", struct.pack(">hqqqq", version, 1, 0, 13, 14))
    files = {f"{0:020d}.{kind}": content for kind, content in zip(kinds, contents, strict=True)}
    start = Start(True, 14, 0, is_version_a_byte=kafka_version.is_before_4_4)
    return Case(0, Source(f"version {version}", files, ()), [], start)


# -- ours


def our_outcome(case, directory):
    """By the library; the changes that it plans, made, must give what it says it would."""
    try:
        files, offsets = load(directory, NOW_MS, case.start)
    except NotLoaded as failure:
        return Outcome(failure.args)
    assert contents(directory) == files, "the changes lead to other files than the draft has"
    return Outcome(None, offsets, files)


def our_command_outcome(case, folder):
    """By the command, in a log directory; the offsets are only those that it leaves in the checkpoints."""
    root, start = folder / "log.dir", case.start
    before = case.files()
    write(before, root / "t-0")
    (root / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    for name, offset in (("recovery-point", start.recovery_point), ("log-start", start.log_start)):
        (root / f"{name}-offset-checkpoint").write_text(f"0\n1\nt 0 {offset}\n" if offset else "")
    if start.malformed:
        name, how = start.malformed
        (root / f"{name}-offset-checkpoint").write_bytes(MALFORMED[how])
    checkpoints = {path.name: path.read_bytes() for path in root.glob("*-checkpoint")}
    if start.is_clean:
        (root / MARKER).write_bytes(MARKER_BYTES)
    properties = folder / "server.properties"
    properties.write_text(
        f"producer.id.expiration.ms={start.producer_id_expiration_ms}\nremote.log.storage.system.enable=true\n"
    )
    argv = ["recover", str(root / "t-0"), "--like-broker", "--now", str(NOW_MS), "--broker-config", str(properties)]
    argv += ["--kafka-version", "4.2" if start.is_version_a_byte else "4.4"]
    argv += [word for name, value in start.settings().items() for word in ("--config", f"{name}={value}")]
    code, out, err = kafkalog(*argv)
    after = contents(root / "t-0")
    assert code in (0, 14), (code, err)
    marker = (root / MARKER).read_bytes() if (root / MARKER).exists() else None
    assert marker in ((MARKER_BYTES, None) if start.is_clean else (None,))
    if code:
        assert after == before, "files have changed although the command refused"
        assert {path.name: path.read_bytes() for path in root.glob("*-checkpoint")} == checkpoints
        return Outcome(("refused", out))
    if not case.damages and case.source.name.startswith("random") and after == before:
        assert marker == (MARKER_BYTES if start.is_clean else None)
    lines = [checkpoint_line(root, name) for name in ("log-start", "recovery-point")]
    return Outcome(None, tuple(lines), after)


def checkpoint_line(root, name):
    words = (root / f"{name}-offset-checkpoint").read_text().split()
    return int(words[4]) if len(words) == 5 else None


# -- the real one


class RealLoader:
    """A JVM that loads and writes logs, one after the other (java/LoadLogs)."""

    def __init__(self, class_path):
        self.version = version_of(re.search(r"/kafka-([0-9.]+)/", class_path)[1])
        # A segment that is split without end fills the stack; a length that lies must not fill the heap.
        options = ["-XX:+UseSerialGC", "-Xmx1g", "-XX:TieredStopAtLevel=1", *archived("LoadLogs", class_path)]
        self._process = subprocess.Popen(
            ["java", *options, "-cp", class_path, "LoadLogs"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait(240)
        self._process.stdout.close()

    def _send(self, *words):
        self._process.stdin.write("\t".join(map(str, words)) + "\n")
        self._process.stdin.flush()

    def _answer(self):
        answer = self._process.stdout.readline().rstrip("\n").split("\t")
        if answer == [""]:
            raise RuntimeError("the JVM has ended")
        return answer

    def generate(self, directory, seed, flavour, settings, *, is_stopped):
        """Write a random log: its start, end and recovery point."""
        words = [f"{name}={value}" for name, value in settings.items()]
        self._send("generate", directory, seed, flavour, NOW_MS, "stop" if is_stopped else "leave", *words)
        return tuple(map(int, self._answer()[1:4]))

    def begin(self, directory, start, *, now_ms=NOW_MS, stops=True):
        """Have it load a directory; `outcome` tells what came out."""
        words = [f"{name}={value}" for name, value in start.settings().items()]
        numbers = [start.recovery_point, start.log_start, int(start.is_clean), now_ms, start.producer_id_expiration_ms]
        self._send("load", directory, *numbers, "stop" if stops else "leave", *words)

    def outcome(self, directory):
        """What came of the directory that was begun first."""
        answer = self._answer()
        if answer[0] != "ok":
            return Outcome((answer[1], " ".join(answer[2:])))
        offsets = tuple(None if word == "none" else int(word) for word in answer[1:5])
        return Outcome(None, offsets, contents(Path(directory)))


# -- both


def compare(case, real, folder, *, with_command=False):
    """(what differs, in words; what the real one made of it). Works in `folder`, which is empty then and afterwards.

    Only the command reads checkpoints; what a broker gets from each malformed file, test_checkpoints_live.py shows.
    """
    if case.start.malformed:
        name, how = case.start.malformed
        if not with_command or how.startswith("offline"):
            command = our_command_outcome(case, folder / "command") if with_command else None
            case = case._replace(start=case.start._replace(malformed=()))
            found, outcome = compare(case, real, folder)
            is_refused = command is None or command.thrown is not None
            return found + ([] if is_refused else [f"the command takes a {how} {name} checkpoint"]), outcome
        # A broker takes 0; the command is run on the malformed file.
        case = case._replace(start=case.start._replace(**{name.replace("-", "_"): 0}))
    theirs = write(case.files(), folder / "real" / "t-0")
    real.begin(theirs, case.start)
    try:
        ours = our_outcome(case, write(case.files(), folder / "ours" / "t-0"))
        command = our_command_outcome(case, folder / "command") if with_command else None
        found = []
    except Exception as error:  # (the case is shown, and the next one tried)
        ours, command, found = None, None, [f"ours fails: {where(error)}"]
    outcome = real.outcome(theirs)
    found += [] if ours is None else differences(ours, outcome)
    found += [] if command is None else command_differences(command, outcome, is_tiered=case.start.is_tiered)
    for path in folder.iterdir():
        shutil.rmtree(path)
    return found, outcome


def where(error):
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{error!r} in {Path(place.filename).name}, line {place.lineno}: {place.line}"


def differences(ours, real):
    """In words; none if both agree. Where a broker does not start, what it left behind is not compared."""
    if ours.thrown or real.thrown:
        return (
            []
            if ours.thrown and real.thrown
            else [f"ours {ours.thrown or ours.offsets}, real {real.thrown or real.offsets}"]
        )
    found = [] if ours.offsets == real.offsets else [f"offsets {ours.offsets}, real {real.offsets}"]
    return found + file_differences(ours.files, real.files)


def command_differences(command, real, *, is_tiered):
    if command.thrown or real.thrown:
        return [] if command.thrown and real.thrown else [f"the command ends with {command.thrown or 'ok'}"]
    log_start, log_end = real.offsets[:2]
    segments = (name for name in real.files if re.fullmatch(r"-?\d{20,}\.log", name))
    first = min(int(name.removesuffix(".log")) for name in segments)
    expected = log_start if log_start > first or is_tiered else None, log_end
    found = [] if command.offsets == expected else [f"checkpoints {command.offsets}, to be {expected}"]
    return found + [f"by the command: {text}" for text in file_differences(command.files, real.files)]


def file_differences(ours, real):
    found = []
    for name in sorted(ours.keys() | real.keys()):
        one, other = ours.get(name), real.get(name)
        if one is None or other is None or comparable(name, one) != comparable(name, other):
            sizes = ["none" if data is None else f"{len(data)} bytes" for data in (one, other)]
            found.append(f"{name}: {sizes[0]}, real {sizes[1]}")
    return found


def comparable(name, data):
    """Snapshots have no order: that of a HashMap."""
    if ".snapshot" in name:
        is_whole = len(data) >= 10 and (len(data) - 10) % PRODUCER_ENTRY.size == 0
        return sorted(PRODUCER_ENTRY.iter_unpack(data[10:])) if is_whole else data
    return data


def smaller(case, real, folder):
    """A case that differs, without the damages that it does not take."""
    at = 0
    while at < len(case.damages):
        less = case._replace(damages=case.damages[:at] + case.damages[at + 1 :])
        if compare(less, real, folder)[0]:
            case = less
        else:
            at += 1
    return case

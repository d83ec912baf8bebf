"""Readers in a loop beside a real broker that appends, rolls, cleans and deletes, with a small share of the CPU.

`python -m tests.kafka.live_broker --seconds 300` runs the long form.
"""

import argparse
import os
import random
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.kafka.broker import JAVA, broker
from tests.kafka.forked_readers import forked_readers, read_line
from tests.kafka.real_kafka import real_kafka_here

PER_SECOND = 300
SETTINGS = {
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.threads": "1",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
    "log.segment.delete.delay.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "300",
    "log.flush.start.offset.checkpoint.interval.ms": "300",
    "replica.high.watermark.checkpoint.interval.ms": "300",
    "transactional.id.expiration.ms": "5000",
    "producer.id.expiration.ms": "5000",
    "transaction.state.log.segment.bytes": "1048576",
    "replica.fetch.wait.max.ms": "100",
}
SHARE, PERIOD_SECONDS = 0.2, 0.05
BOUND_SECONDS, SPARK_BOUND_SECONDS = 600, 1200
SESSION_MS = 20_000
MOVE_SECONDS = 5
LAG_SECONDS = 1.5
SPARK_CHANCE = 1 / 15
"""A run of Spark takes as long as ten others."""
CHECKED = ("plain-0", "compacted-0", "txn-0", "txncompacted-0", "moved-0", "movedcompacted-0")
CONTIGUOUS = ("plain-0", "moved-0")
"""Of these no offset is left out: a read that skips one has lost records."""


def commands(data, rng):
    """(what it is, command line) of every reader, on each busy partition of a log directory."""
    for level in ("quick", "normal", "deep"):
        yield "verify " + level, ["verify", "--level", level, str(data)]
    yield "dump-index root", ["dump-index", str(data)]
    yield "ls root", ["ls", "--transactions", str(data)]
    yield from space_commands(data)
    for name in CHECKED:
        if (data / name).is_dir():
            yield from partition_commands(str(data / name), rng)
    for name, decoder in (
        ("__transaction_state-0", "--transaction-log-decoder"),
        ("__cluster_metadata-0", "--cluster-metadata-decoder"),
    ):
        if (data / name).is_dir():
            yield "dump-log decoder", ["dump-log", decoder, str(data / name)]
            yield "verify partition", ["verify", "--level", "deep", str(data / name)]


def partition_commands(partition, rng):
    yield "verify partition", ["verify", "--quiet", partition]
    yield "verify partition deep", ["verify", "--level", "deep", partition]
    yield "dump-index", ["dump-index", partition]
    yield "dump-index json", ["dump-index", "--format", "json", partition]
    yield "dump-log", ["dump-log", "--strict", "--deep-iteration", partition]
    yield "dump-log data", ["dump-log", "--print-data-log", "--resync", partition]
    yield "read", ["read", "--print", "offset", partition]
    yield "read committed", ["read", "--isolation", "read_committed", partition]
    yield "lookup-time", ["lookup-time", partition, "--max-timestamp"]
    yield "lookup-time ago", ["lookup-time", partition, "-5s"]
    yield "ls", ["ls", "--segments", partition]
    offset = an_offset(partition, rng)
    yield "read from", ["read", "--from", str(offset), "--print", "offset", partition]
    yield "lookup-offset", ["lookup-offset", partition, str(offset)]
    newest = max((path for path in Path(partition).glob("*.index")), default=None)
    if newest is not None:
        files = f"{newest},{newest.with_suffix('.timeindex')},{newest.with_suffix('.log')}"
        yield "dump-log files", ["dump-log", "--files", files]
        yield (
            "dump-log index",
            ["dump-log", "--files", str(newest), rng.choice(["--verify-index-only", "--index-sanity-check"])],
        )


def space_commands(data):
    """`ls` of what fills the disk: it lists all files, and reads what is due for compaction."""
    settings = ["--broker-config", str(data.parent / "server.properties")]
    yield "ls topics", ["ls", "--topics", str(data)]
    yield "ls topics freeable", ["ls", "--topics", "--freeable", *settings, str(data)]
    yield "ls freeable", ["ls", "--freeable", "--sort", "freeable", *settings, str(data)]
    yield "ls topics json", ["ls", "--topics", "--freeable", "--format", "json", *settings, str(data)]


def spark_commands(data):
    yield "stats spark", ["stats", "--engine", "spark", "--master", "local[1]", str(data)]
    topic = "plain" if (data / "plain-0").is_dir() else "moved"
    yield "sql", ["sql", "--master", "local[1]", str(data), f"select count(*), min(offset), max(offset) from {topic}"]
    yield "verify spark", ["verify", "--engine", "spark", "--master", "local[1]", str(data)]


def an_offset(partition, rng):
    """One in, or soon in, a segment that is there."""
    bases = sorted(int(path.stem) for path in Path(partition).glob("*.log"))
    return rng.choice(bases[-3:] or [0]) + rng.randrange(200)


class BusyBrokers:
    """Brokers at work: `data` are their log directories."""

    def __init__(self, brokers, client):
        self.brokers, self._client = brokers, client
        self.data = [one.data for one in brokers]
        self.moves = 0

    def move_leaders(self, lag_seconds=LAG_SECONDS):
        """The second broker becomes the leader of partitions of which it lags behind: the first has to truncate them.
        Then the first leads again."""
        pid = self.brokers[1].pid
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(lag_seconds)
            self._lead(2)
            time.sleep(0.2)
        finally:
            os.kill(pid, signal.SIGCONT)
        time.sleep(MOVE_SECONDS / 2)
        self._lead(1)
        self.moves += 1

    def truncations(self):
        """How often a follower has truncated a partition of a topic that is moved, by what the brokers log."""
        return sum(len(TRUNCATED.findall(one.log())) for one in self.brokers)

    def check_client(self):
        """Raise if the client has ended: the brokers would be idle."""
        if (code := self._client.poll()) is not None:
            raise RuntimeError(f"the client that keeps the brokers busy has ended with {code}: see its messages")

    def _lead(self, broker_id):
        self._client.stdin.write(f"lead {broker_id}\n")
        self._client.stdin.flush()
        assert self._client.stdout.readline().strip() == "asked"


TRUNCATED = re.compile(r"\[UnifiedLog partition=moved\S*, dir=\S+\] Truncating to offset")


@contextmanager
def busy_brokers(folder, kafka, count=1):
    """BusyBrokers, one or two."""
    settings = {**SETTINGS, "broker.session.timeout.ms": str(SESSION_MS)}
    with ExitStack() as stack:
        first = stack.enter_context(broker(folder / "1", kafka.broker_class_path, settings))
        more = {"first": first}
        others = [stack.enter_context(broker(folder / "2", kafka.broker_class_path, settings, **more))][: count - 1]
        for one in (first, *others):
            one.folder.mkdir()
            one.start()
        command = [*JAVA, "-Xmx256m", "-cp", kafka.class_path, "BusyClient", first.address, first.controller]
        command += [str(PER_SECOND), str(count)]
        client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            assert client.stdout.readline().strip() == "ready"
            yield BusyBrokers([first, *others], client)
        finally:
            client.stdin.close()
            try:
                client.wait(240)
            except subprocess.TimeoutExpired:  # all that it still has to do is to print a number
                client.kill()
                client.wait()


@contextmanager
def moving(busy):
    """Leaders move meanwhile, in a thread, if there are two brokers."""
    over, failed = threading.Event(), []

    def move():
        try:
            while not over.wait(MOVE_SECONDS / 2):
                busy.move_leaders()
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=move)
    if len(busy.brokers) > 1:
        thread.start()
    try:
        yield
    finally:
        over.set()
        if len(busy.brokers) > 1:
            thread.join()
    if failed:
        raise failed[0]


def run_slowly(begin, arguments, folder, is_slow, bound_seconds=BOUND_SECONDS):
    """(exit code, stdout, stderr) of a process that is stopped for four fifths of its time; None: it takes too long."""
    out, err = folder / "out", folder / "err"
    process_id, answers = begin(arguments, out, err)
    deadline = time.monotonic() + bound_seconds
    while not select.select([answers], [], [], PERIOD_SECONDS * SHARE)[0]:
        if time.monotonic() > deadline:
            os.kill(process_id, signal.SIGKILL)
            break
        if is_slow:
            os.kill(process_id, signal.SIGSTOP)
            time.sleep(PERIOD_SECONDS * (1 - SHARE))
            os.kill(process_id, signal.SIGCONT)
    code = int(read_line(answers))
    return code, *(path.read_text("utf-8", "replace") for path in (out, err))


class Readers:
    """Runs readers, and counts them by exit code; `reasons` are the last lines of those that failed, `wrong` the false alarms."""

    def __init__(self, begin, folder):
        self._begin, self._folder = begin, folder
        self.counts, self.reasons, self.wrong = Counter(), Counter(), []

    def attempt(self, name, arguments, is_slow, bound_seconds=BOUND_SECONDS):
        """Runs a reader once."""
        code, out, err = run_slowly(self._begin, arguments, self._folder, is_slow, bound_seconds)
        self.counts[name, code] += 1
        if code not in (0, 3):
            self.reasons[name, code, re.sub(r"/\S+/|\d+", "N", err.strip().rpartition("\n")[2])] += 1
        reason = false_alarm(name, code, err) or (not code and wrong_offsets(arguments, out))
        if reason:
            self.wrong.append((name, code, reason, arguments, out[-2000:], err[-2000:]))


@contextmanager
def readers(folder):
    folder.mkdir()
    with forked_readers() as begin:
        yield Readers(begin, folder)


def loop(busy, reading, seconds, seed, only="", with_spark=False):
    """Runs readers for so long: of those whose name and path match the pattern `only`."""
    rng = random.Random(seed)
    deadline = time.monotonic() + seconds
    chance = SPARK_CHANCE if with_spark else 0
    while time.monotonic() < deadline:
        busy.check_client()
        data = rng.choice(busy.data)
        if rng.random() < chance:
            reading.attempt(*rng.choice([*spark_commands(data)]), False, SPARK_BOUND_SECONDS)
            continue
        wanted = [each for each in commands(data, rng) if is_wanted(only, each)]  # anew: of segments that are there now
        if wanted:
            reading.attempt(*rng.choice(wanted), rng.random() < 0.8)


def is_wanted(only, each):
    name, arguments = each
    return re.search(only, f"{name} {' '.join(arguments)}") is not None


TRUE_WORDS = ("no such file or directory", "is outside the log, valid range is", "no record is at or after")
"""The last where a busy host has kept producers from a topic for the seconds that were asked for."""
AS_THE_TOOL = re.compile(r"index: at byte \d+: (the index points outside the segment|an incomplete batch where)")
"""An index that is newer or older than its log: kafka-dump-log ends there, and `dump-log` of an index file, too."""
DUMPS_OF_AN_INDEX = ("dump-log index", "dump-log files")
LOOK_AGAIN = ("verify", "dump-index", "ls")


def false_alarm(name, code, err):
    """Why this is a false alarm, "" where it is none: a live log is not corrupt, and no reader fails over it.

    A segment that a broker deleted meanwhile may be missed. `verify`, `dump-index` and `ls` look again; a reader that
    shows records or one answer says which file, or which offset, is gone.
    """
    if "internal error" in err or "Traceback" in err:
        return "internal error"
    if code in (0, 3) or (code == 1 and name in DUMPS_OF_AN_INDEX and AS_THE_TOOL.search(err)):
        return ""
    if name.startswith(LOOK_AGAIN) or code not in (1, 5, 10):
        return f"exit code {code}"
    return (
        ""
        if code == 10 or any(words in err for words in TRUE_WORDS)
        else f"exit code {code} without a word of what is gone"
    )


def wrong_offsets(arguments, out):
    """Why the offsets that `read` printed cannot be right, or ""."""
    if arguments[0] != "read" or "--print" not in arguments:
        return ""
    offsets = [int(line.removeprefix("Offset:")) for line in out.split()]
    steps = {later - earlier for earlier, later in zip(offsets, offsets[1:], strict=False)}
    if any(step <= 0 for step in steps):
        return "offsets that do not ascend"
    if arguments[-1].endswith(CONTIGUOUS) and steps - {1}:
        return "offsets are left out"
    return ""


def show(reading):
    for (name, code), count in sorted(reading.counts.items()):
        print(f"{name}: {count} runs with exit code {code}")
    for (name, code, reason), count in sorted(reading.reasons.items()):
        print(f"{name}: exit code {code}, {count} times: {reason}")
    for name, code, reason, arguments, out, err in reading.wrong:
        print("FALSE ALARM", name, code, reason, arguments, out, err, sep="\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--brokers", type=int, choices=(1, 2), default=2)
    parser.add_argument("--only", default="", help="a pattern in the name of the reader or in its command line")
    parser.add_argument("--spark", action="store_true", help="sql, and verify and stats --engine spark, too")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        busy = stack.enter_context(busy_brokers(folder, real_kafka_here(), options.brokers))
        reading = stack.enter_context(readers(folder / "out"))
        try:
            with moving(busy):
                loop(busy, reading, options.seconds, options.seed, options.only, options.spark)
        finally:
            show(reading)
        truncations = busy.truncations()
    runs, alarms = sum(reading.counts.values()), len(reading.wrong)
    done = f"{busy.moves} changes of leaders, {truncations} truncations"
    print(f"{runs} runs, {done}, {alarms} false alarms (seed {options.seed})")
    return 1 if alarms else 0


if __name__ == "__main__":
    sys.exit(main())

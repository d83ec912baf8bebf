"""Readers in a loop beside a real broker that appends, rolls, cleans and deletes, with a small share of the CPU.

`python -m tests.interop.live_broker --seconds 300` runs the long form.
"""

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]  # as a module the folder's siblings are not on the path

from broker import JAVA, broker  # noqa: E402
from real_kafka import real_kafka_here  # noqa: E402

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
}
PARTITIONS = ("plain-0", "compacted-0", "txn-0")
SHARE, PERIOD_SECONDS = 0.2, 0.05
BOUND_SECONDS = 120


def commands(data):
    """(what it is, command line) of every reader; `{partition}` is one of the busy partitions."""
    partitions = [str(data / name) for name in PARTITIONS]
    yield from (("verify " + level, ["verify", "--level", level, str(data)]) for level in ("quick", "normal", "deep"))
    for partition in partitions:
        yield "verify partition", ["verify", "--quiet", partition]
        yield "dump-index", ["dump-index", partition]
        yield "dump-log", ["dump-log", "--strict", "--deep-iteration", partition]
        yield "read", ["read", partition]
        yield "read committed", ["read", "--isolation", "read_committed", partition]
        yield "lookup-time", ["lookup-time", partition, "--max-timestamp"]
        yield "lookup-time ago", ["lookup-time", partition, "-5s"]
    yield "dump-index root", ["dump-index", str(data)]
    yield "ls", ["ls", str(data)]


@contextmanager
def busy_broker(folder, kafka):
    """The log directory of a broker at work."""
    with broker(folder, kafka.broker_class_path, SETTINGS) as one:
        one.start()
        command = [*JAVA, "-Xmx256m", "-cp", kafka.class_path, "BusyClient", one.address, str(PER_SECOND)]
        client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            assert client.stdout.readline().strip() == "ready"
            yield one.data
        finally:
            client.stdin.close()
            client.wait(20)


def run_slowly(command, is_slow):
    """(exit code, stdout, stderr) of a process that is stopped for four fifths of its time."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        deadline = time.monotonic() + BOUND_SECONDS
        try:
            while process.poll() is None and time.monotonic() < deadline:
                if is_slow:
                    process.send_signal(signal.SIGSTOP)
                    time.sleep(PERIOD_SECONDS * (1 - SHARE))
                    process.send_signal(signal.SIGCONT)
                time.sleep(PERIOD_SECONDS * SHARE)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
        return process.returncode, *texts


def loop(data, seconds, seed, on_failure=None):
    """Runs readers for so long; (runs by reader and exit code, what was wrong)."""
    rng, counts, wrong = random.Random(seed), Counter(), []
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        every = [*commands(data)]
        rng.shuffle(every)
        for name, arguments in every:
            if time.monotonic() > deadline:
                break
            attempt(name, arguments, rng.random() < 0.8, counts, wrong)
            if on_failure is not None and wrong and wrong[-1][0] == name:
                on_failure(*wrong.pop())
    return counts, wrong


def attempt(name, arguments, is_slow, counts, wrong):
    """Runs a reader once; counts it, and adds what was wrong."""
    code, out, err = run_slowly([sys.executable, "-m", "kafkalog_cli", *arguments], is_slow)
    counts[name, code] += 1
    if is_false_alarm(name, code, err):
        wrong.append((name, code, out, err))


GONE = "no such file or directory"


def is_false_alarm(name, code, err):
    """A live log is not corrupt, and no reader fails over it; a segment that a broker deleted meanwhile may be missed.

    `verify` and `dump-index` look again; a reader that shows records or one answer says which file is gone.
    """
    if "internal error" in err:
        return True
    looks_again = name.startswith(("verify", "dump-index"))
    return code not in (0, 3) and (looks_again or code not in (1, 5, 10) or GONE not in err)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()

    alarms = 0

    def show(name, code, out, err):
        nonlocal alarms
        alarms += 1
        print("FALSE ALARM", name, code, out[-1500:], err[-1500:], flush=True)

    with tempfile.TemporaryDirectory() as folder, busy_broker(Path(folder), real_kafka_here()) as data:
        counts, _ = loop(data, options.seconds, options.seed, show)
    for (name, code), count in sorted(counts.items()):
        print(f"{name}: {count} runs with exit code {code}")
    print(f"{sum(counts.values())} runs, {alarms} false alarms (seed {options.seed})")
    return 1 if alarms else 0


if __name__ == "__main__":
    sys.exit(main())

"""Differential fuzz of roll, retain, truncate, delete-records against the real UnifiedLog: `python -m tests.interop.fuzz_changes --count 5000`.

Exit code 1 if any case differs; its files are kept: `before`, `case.txt`.
"""

import argparse
import shutil
import sys
import tarfile
import tempfile
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
sys.path.extend([str(HERE), str(HERE.parent), str(HERE.parent.parent)])

from change_cases import (  # noqa: E402  (as a script it finds them only now)
    RealLogs,
    compare_changes,
    compare_killed,
    killed_log,
    make_change,
    settle,
)
from fuzz_loader import record  # noqa: E402
from loader_cases import corpus_sources, random_source, write  # noqa: E402
from real_kafka import VERSION, real_kafka_here  # noqa: E402


class Tally:
    """What the cases came to: by verb, those in which the broker did something, refused, or nothing was to be done."""

    def __init__(self):
        self.tried = self.different = 0
        self.outcomes = Counter()

    def note(self, case, theirs, found):
        self.tried += 1
        self.different += bool(found)
        if theirs.refused:
            what = "refused"
        else:
            what = (
                "changed" if set(theirs.files) != set(case.log.files) or theirs.files != case.log.files else "as it was"
            )
        self.outcomes[case.verb, what] += 1

    def __str__(self):
        parts = ", ".join(f"{verb} {what} {count}" for (verb, what), count in sorted(self.outcomes.items()))
        return f"{self.tried} cases: {self.tried - self.different} alike, {self.different} differ ({parts})"


def settled_logs(count, seed, real, corpus, folder):
    """Logs that no broker changes when it starts: of the corpus (for a few cases not all), and random ones."""
    sources = [(random_source(real, folder, seed * 20_000 + at), False) for at in range(max(40, min(count // 20, 600)))]
    stopped = [source for source in corpus_sources(corpus) if is_of_stopped_broker(source.name)]
    sources += [(source, True) for source in stopped[:: 1 if count > 1000 else 4]]
    found = (settle(real, source, folder, is_clean=is_clean) for source, is_clean in sources)
    return [log for log in found if log is not None]


def killed_logs(count, seed, real, folder):
    """Random logs whose broker was killed, which lost nothing."""
    sources = (random_source(real, folder, seed * 30_000 + at) for at in range(max(24, min(count // 10, 800))))
    found = (killed_log(real, source, folder) for source in sources if source.name.endswith("killed"))
    return [log for log in found if log is not None]


def is_of_stopped_broker(name):
    """The logs of deleted topics were never closed; those with a torn tail are refused by ours."""
    return "/before/" not in name and not name.endswith("-delete") and "clean-torn" not in name


def fuzz_changes(real, logs, folder, *, seed, count, show=print, compare=compare_changes):
    """Try `count` cases; `show` gets each that differs, and what differs. The tally."""
    tally = Tally()
    for number in range(seed * 1_000_000, seed * 1_000_000 + count):
        case = make_change(number, logs)
        found, _, theirs = compare(case, real, folder)
        tally.note(case, theirs, found)
        if found:
            show(case, found)
    return tally


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--killed", action="store_true", help="logs whose broker was killed")
    parser.add_argument("--keep", type=Path, help="directory for cases that differ")
    parser.add_argument("--record", type=Path, help="page whose last line gets the result")
    options = parser.parse_args()
    kept = options.keep or Path(tempfile.mkdtemp(prefix="change-cases-"))
    # a file system in memory, if there is one: the real log waits for the disk after every file
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="fuzz-changes-", dir=memory if memory.is_dir() else None))
    begun = time.monotonic()
    try:
        (folder / "work").mkdir()
        with tarfile.open(HERE.parent / "fixtures" / "corpus" / "corpus.tar.xz") as tar:
            tar.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        with RealLogs(real_kafka_here().class_path) as real:
            if options.killed:
                logs, compare = killed_logs(options.count, options.seed, real, folder / "work"), compare_killed
            else:
                logs = settled_logs(options.count, options.seed, real, folder / "corpus", folder / "work")
                compare = compare_changes

            def show(case, found):
                print(case, *found[:8], sep="\n    ", flush=True)
                target = kept / str(case.seed)
                write(case.log.files, target / "before")
                (target / "case.txt").write_text("\n".join([str(case), str(case.mtimes), *found]) + "\n")

            sizes = {"seed": options.seed, "count": options.count}
            tally = fuzz_changes(real, logs, folder / "work", **sizes, show=show, compare=compare)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    result = f"{len(logs)} logs{' of killed brokers' if options.killed else ''}, {tally}; seed {options.seed}, {time.monotonic() - begun:.0f} s"
    print(result)
    if options.record:
        record(options.record, f"{time.strftime('%Y-%m-%d')}, Kafka {VERSION}: {result}.")
    if tally.different:
        print(f"kept in {kept}")
    return 1 if tally.different else 0


if __name__ == "__main__":
    sys.exit(main())

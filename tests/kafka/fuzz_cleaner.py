"""Differential fuzz of compact against the real Cleaner: `python -m tests.kafka.fuzz_cleaner --count 1000`.

A case is a random log and up to four cleanings of it, with more records appended in between. Exit code 1 if any differs;
its files are kept: `before`, `case.txt`.
"""

import sys
from collections import Counter
from functools import partial
from random import Random

from tests.kafka.change_cases import settle
from tests.kafka.clean_cases import RealCleaner, compare_clean, keyed_source, make_clean
from tests.kafka.fuzzing import keep_case, run_fuzz
from tests.kafka.loader_cases import DAY_MS, NOW_MS
from tests.kafka.real_kafka import real_kafka_here


class Tally:
    """What the cleanings came to."""

    def __init__(self):
        self.logs = self.tried = self.different = 0
        self.outcomes = Counter()

    def note(self, theirs, found):
        self.tried += 1
        self.different += bool(found)
        self.outcomes["refused" if theirs.refused else "not due" if theirs.end_offset is None else "cleaned"] += 1

    def __str__(self):
        parts = ", ".join(f"{what} {count}" for what, count in sorted(self.outcomes.items()))
        return f"{self.logs} logs, {self.tried} cleanings: {self.tried - self.different} alike, {self.different} differ ({parts})"


def fuzz_cleaner(real, folder, *, seed, count, show=print):
    """Try `count` logs; `show` gets each cleaning that differs, and what differs. The tally."""
    tally = Tally()
    for number in range(seed * 1_000_000, seed * 1_000_000 + count):
        chance = Random(number)
        source = keyed_source(real, folder, number)
        now_ms, checkpoint = NOW_MS, None
        tally.logs += 1
        for at in range(chance.randrange(1, 5)):
            log = settle(real, source, folder, is_clean=True)
            if log is None:
                break
            case = make_clean(number * 8 + at, log, now_ms, checkpoint)
            found, theirs = compare_clean(case, real, folder)
            tally.note(theirs, found)
            if found:
                show(case, found)
            if found or theirs.refused:
                break
            checkpoint = case.checkpoint if theirs.end_offset is None else theirs.end_offset
            now_ms += chance.choice([0, 0, 500, 2_000, DAY_MS + 1])
            files = {name: data for name, data in theirs.files.items() if not name.endswith(".deleted")}
            source = source._replace(files=files)
            if chance.random() < 0.6 and log.log_start == log.first_base:
                source = keyed_source(real, folder, number * 8 + at + 1, files)
    return tally


def fuzz_all(options, folder, kept):
    with RealCleaner(real_kafka_here().class_path) as real:
        show = partial(keep_case, kept)
        return "", fuzz_cleaner(real, folder, seed=options.seed, count=options.count, show=show)


def main():
    return run_fuzz(__doc__, 100, fuzz_all, row="`compact`")


if __name__ == "__main__":
    sys.exit(main())

"""Differential fuzz of roll, retain, truncate, delete-records against the real UnifiedLog: `python -m tests.kafka.fuzz_changes --count 5000`.

Exit code 1 if any case differs; its files are kept: `before`, `case.txt`.
"""

import sys
from collections import Counter
from functools import partial

from tests.kafka.change_cases import (
    RealLogs,
    compare_changes,
    compare_killed,
    killed_log,
    make_change,
    odd_twin,
    settle,
)
from tests.kafka.fuzzing import keep_case, run_fuzz, unpacked_corpus
from tests.kafka.loader_cases import corpus_sources, random_source
from tests.kafka.real_kafka import real_kafka_here


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
        parts = {}
        for (verb, what), count in sorted(self.outcomes.items()):
            parts.setdefault(verb, []).append(f"{count} {what}")
        counts = "".join(f". {verb.capitalize()}: {', '.join(outcomes)}" for verb, outcomes in parts.items())
        return f"{self.tried} cases: {self.tried - self.different} alike, {self.different} differ{counts}"


def settled_logs(count, seed, real, corpus, folder):
    """Logs that no broker changes when it starts: of the corpus (for a few cases not all), and random ones."""
    sources = [(random_source(real, folder, seed * 20_000 + at), False) for at in range(max(40, min(count // 20, 600)))]
    sources += [(odd_twin(source, at), is_clean) for at, (source, is_clean) in enumerate(sources[::3])]
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


def fuzz_all(options, folder, kept):
    corpus, work = unpacked_corpus(folder)
    with RealLogs(real_kafka_here().class_path) as real:
        if options.killed:
            logs, compare = killed_logs(options.count, options.seed, real, work), compare_killed
        else:
            logs, compare = settled_logs(options.count, options.seed, real, corpus, work), compare_changes
        sizes = {"seed": options.seed, "count": options.count}
        tally = fuzz_changes(real, logs, work, **sizes, show=partial(keep_case, kept), compare=compare)
    return f"{len(logs)} logs{' of killed brokers' if options.killed else ''}, ", tally


def main():
    return run_fuzz(
        __doc__,
        1000,
        fuzz_all,
        row="`roll`, `retain`, `truncate`, `delete-records`",
        flags=[("--killed", "logs whose broker was killed")],
    )


if __name__ == "__main__":
    sys.exit(main())

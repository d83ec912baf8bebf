"""Differential fuzz of `recover --like-broker` against the real loader: `python -m tests.kafka.fuzz_loader --count 20000`.

A case that differs is kept as a directory: `before` (the damaged partition), `real` and `ours` (after loading),
`case.txt`. Exit code 1 if any differs.
"""

import sys

from tests.kafka.fuzzing import run_fuzz, unpacked_corpus
from tests.kafka.loader_cases import (
    RealLoader,
    compare,
    corpus_sources,
    make_case,
    our_outcome,
    random_source,
    smaller,
    write,
)
from tests.kafka.real_kafka import real_kafka_here

COMMAND_EVERY = 10
"""So many cases to one that goes through the command too."""


class Tally:
    """What the cases came to."""

    def __init__(self):
        self.tried = self.refused = self.by_command = self.different = 0

    def __str__(self):
        return (
            f"{self.tried} cases ({self.by_command} through the command too): {self.tried - self.different} alike, of"
            f" them {self.refused} that a broker refuses to start with; {self.different} differ"
        )


def sources_for(count, seed, real, corpus, folder):
    """Corpus partitions, and random logs: more where more cases are tried."""
    made = [random_source(real, folder, seed * 10_000 + at) for at in range(max(60, min(count // 20, 1000)))]
    found = corpus_sources(corpus)
    # random logs have the odd things, the corpus has what a broker and other clients wrote: half and half
    return made * max(1, len(found) // len(made)) + found * max(1, len(made) // len(found))


def fuzz(real, sources, folder, *, seed, count, show=print):
    """Try `count` cases; `show` gets each that differs, and what differs. The tally."""
    tally = Tally()
    for number in range(seed * 1_000_000, seed * 1_000_000 + count):
        with_command = number % COMMAND_EVERY == 0
        case = make_case(number, sources)
        case = case._replace(start=case.start._replace(is_version_a_byte=real.version.is_before_4_4))
        found, outcome = compare(case, real, folder, with_command=with_command)
        tally.tried += 1
        tally.by_command += with_command
        tally.refused += outcome.thrown is not None and not found
        if found:
            tally.different += 1
            show(case, found)
    return tally


def keep(case, real, folder, target):
    """A directory with the smaller case and both results."""
    small = smaller(case, real, folder)
    found, _ = compare(small, real, folder)
    write(small.files(), target / "before")
    theirs = write(small.files(), target / "real" / "t-0")
    real.begin(theirs, small.start)
    outcome = real.outcome(theirs)
    try:
        ours = our_outcome(small, write(small.files(), target / "ours"))
    except Exception as error:
        ours = error
    lines = [str(small), *found, f"real: {outcome.thrown or outcome.offsets}"]
    lines += [f"ours: {getattr(ours, 'thrown', ours) or ours.offsets}"]
    (target / "case.txt").write_text("\n".join(lines) + "\n")


def fuzz_all(options, folder, kept):
    corpus, work = unpacked_corpus(folder)
    with RealLoader(real_kafka_here().class_path) as real:
        sources = sources_for(options.count, options.seed, real, corpus, work)

        def show(case, found):
            print(case, *found[:8], sep="\n    ", flush=True)
            if not (kept / str(case.seed)).exists():
                keep(case, real, work, kept / str(case.seed))

        return "", fuzz(real, sources, work, seed=options.seed, count=options.count, show=show)


def main():
    return run_fuzz(__doc__, 1000, fuzz_all, row="`recover --like-broker`")


if __name__ == "__main__":
    sys.exit(main())

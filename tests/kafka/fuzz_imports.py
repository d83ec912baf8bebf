"""Fuzz of export and import there and back: `python -m tests.kafka.fuzz_imports --count 10000`.

A case is a random log: it is exported, imported with --prove, and read before and after by a reader that shares no code
with ours. Of some the real log loader of Kafka loads what was made, after a clean stop and after none, and must change
nothing; and kafka-dump-log prints the same as ours. Exit code 1 if anything differs; the logs are kept: `before`, `case.txt`.
"""

import shutil
import sys
import traceback
from collections import Counter
from functools import partial

from tests.kafka.agreement import run_ours
from tests.kafka.fuzzing import run_fuzz
from tests.kafka.loader_cases import RealLoader, Start, contents, file_differences
from tests.kafka.real_kafka import real_kafka_here
from tests.spark.import_cases import make_case, run_case

LOADED_EVERY, DUMPED_EVERY = 5, 20
SEGMENT_INDEX_BYTES = 10 << 20


class Tally:
    """What the cases came to."""

    def __init__(self):
        self.counts = Counter()
        self.different = 0

    def note(self, outcome, found, *, loaded, dumped):
        self.different += bool(found)
        self.counts["refused as they must be"] += bool(outcome.refused) and not found
        self.counts["records compared"] += outcome.records
        self.counts["loaded twice by the real loader"] += loaded
        self.counts["segments printed by the real dump-log"] += dumped
        self.counts["logs"] += 1

    def __str__(self):
        counts = {**self.counts}
        logs = counts.pop("logs", 0)
        rest = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
        return f"{logs} logs: {logs - self.different} alike, {self.different} differ. Counts: {rest}"


def fuzz_imports(kafka, real, folder, *, seed, count, show=print):
    """Try `count` logs; `show` gets each that differs, and what differs. `real` None: without Kafka. The tally."""
    tally = Tally()
    for number in range(seed * 1_000_000, seed * 1_000_000 + count):
        case, work = make_case(number), folder / str(number)
        loaded = dumped = 0
        try:
            outcome = run_case(case, work)
            found = list(outcome.different)
            made = [path for path in sorted((work / "new").glob("t-*")) if not found]
            if real is not None and number % LOADED_EVERY == 0:
                loaded = len(made)
                found += [one for path in made for one in load_differences(real, case, path, work / "real")]
            if kafka is not None and number % DUMPED_EVERY == 0:
                logs = [str(log) for path in made for log in sorted(path.glob("*.log"))]
                dumped = len(logs)
                found += dump_differences(kafka, logs, work)
        except Exception:
            outcome, found = None, [traceback.format_exc()]
        if outcome is not None:
            tally.note(outcome, found, loaded=loaded, dumped=dumped)
        else:
            tally.different += 1
        if found:
            show(case, found)
        shutil.rmtree(work, ignore_errors=True)
    return tally


def load_differences(real, case, directory, folder):
    """What the real loader changes in a partition that was made, in words."""
    found = []
    before = contents(directory)
    bases = [int(name.removesuffix(".log")) for name in before if name.endswith(".log")]
    interval = int(case.config["index.interval.bytes"])
    for is_clean in (True, False):
        copy = folder / f"clean-{is_clean}" / directory.name
        shutil.copytree(directory, copy)
        start = Start(is_clean, 0, min(bases), SEGMENT_INDEX_BYTES, interval)
        real.begin(copy, start)
        outcome = real.outcome(copy)
        if outcome.thrown:
            found.append(f"{directory.name}: it does not load: {outcome.thrown}")
            continue
        after = {name: data for name, data in outcome.files.items() if not name.endswith(".snapshot") or name in before}
        words = "a clean stop" if is_clean else "none"
        found += [f"{directory.name}: loaded after {words}: {one}" for one in file_differences(before, after)]
    shutil.rmtree(folder, ignore_errors=True)
    return found


def dump_differences(kafka, logs, folder):
    """Where kafka-dump-log and ours print otherwise."""
    if not logs:
        return []
    commands = [["--files", log, "--deep-iteration", "--print-data-log"] for log in logs]
    found = []
    for argv, theirs in zip(commands, kafka.dump(commands, folder), strict=True):
        ours = run_ours(argv, version=kafka.version)
        if ours != theirs:
            found.append(f"dump-log {argv}: exit codes {ours.code}, {theirs.code}; {theirs.stderr[:200]}")
    shutil.rmtree(folder / "outputs")
    return found


def keep_case(kept, case, found):
    """The logs that a case begins with, and what differs."""
    print(case, *found[:6], sep="\n    ", flush=True)
    for number, files in case.partitions.items():
        target = kept / str(case.seed) / "before" / f"t-{number}"
        target.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (target / name).write_bytes(data)
    (kept / str(case.seed) / "case.txt").write_text("\n".join([str(case), *found]) + "\n")


def fuzz_all(options, folder, kept):
    kafka = real_kafka_here()
    with RealLoader(kafka.class_path) as real:
        show = partial(keep_case, kept)
        return "", fuzz_imports(kafka, real, folder, seed=options.seed, count=options.count, show=show)


def main():
    return run_fuzz(__doc__, 500, fuzz_all, row="`export`, then `import`")


if __name__ == "__main__":
    sys.exit(main())

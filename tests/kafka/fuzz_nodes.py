"""A whole node as the judge of `verify`, `doctor` and their steps: `python -m tests.kafka.fuzz_nodes --count 300`.

A case that differs is kept as a directory: `alone/data` and `advised/data` after the starts, `before` as both began,
`case.txt` and the node's `server.log`. Exit code 1 if any differs.
"""

import os
import shutil
import subprocess
import sys
from collections import Counter

from tests.kafka.fuzzing import run_fuzz
from tests.kafka.node_cases import make_case, try_case
from tests.kafka.node_damage import FAMILIES
from tests.kafka.nodes import BASES, Nodes, copy
from tests.kafka.real_kafka import real_kafka_here
from tests.support.archives import FIXTURES, unpack

ARCHIVE = FIXTURES / "nodes" / "bases.tar.xz"


class Tally:
    """What the cases came to."""

    def __init__(self):
        self.tried = self.different = self.advised = 0
        self.kinds, self.ends = Counter(), Counter()

    def __str__(self):
        return (
            f"{self.tried} cases: the node {', '.join(f'{end} in {count}' for end, count in sorted(self.ends.items()))};"
            f" commands were printed and done in {self.advised}; {self.different} differ;"
            f" by kind {', '.join(f'{kind} {count}' for kind, count in sorted(self.kinds.items()))}"
        )


def fuzz(nodes, sources, folder, *, seeds, families, show):
    """Try the cases of these seeds; `show` gets each that differs, what differs and where it is. The tally."""
    tally = Tally()
    for seed in seeds:
        case, home = make_case(seed, families), folder / f"case-{seed}"
        tried = try_case(case, nodes, sources, home)
        tally.tried += 1
        tally.kinds.update(name for name, _ in case.damages)
        tally.ends[tried.end] += 1
        tally.advised += tried.is_advised
        if tried.found:
            tally.different += 1
            show(case, tried, home)
        shutil.rmtree(home)
    return tally


def make_bases(folder):
    """Make the archive of the bases anew, which takes some minutes."""
    with Nodes(folder, real_kafka_here().broker_class_path) as nodes:
        nodes.make_bases()
    names = sorted(base.name for base in BASES)
    for unwanted in [folder / name / ".lock" for name in names]:
        unwanted.unlink(missing_ok=True)
    # GNU tar keeps the gaps of preallocated indexes
    owner = "--sort=name", "--owner=0", "--group=0", "--numeric-owner"
    subprocess.run(["tar", "-C", str(folder), "-cJSf", str(ARCHIVE), *owner, *names], check=True)


def fuzz_all(options, folder, kept):
    if options.make_bases:
        make_bases(folder)
    families = tuple(os.environ.get("NODE_FAMILIES", " ".join(FAMILIES)).split())
    sources = folder / "bases"
    sources.mkdir()
    unpack(ARCHIVE, sources)

    def show(case, tried, home):
        print(case, *tried.found, sep="\n    ", flush=True)
        target = kept / str(case.seed)
        if not target.exists():
            target.mkdir(parents=True)
            for name in ("alone", "advised"):
                copy(home / name, target / name)
            copy(sources / case.base.name, target / "before")
            case.damage(target / "before")
            (target / "case.txt").write_text("\n".join([str(case), *tried.found]) + "\n")
            (target / "server.log").write_text(tried.log)

    with Nodes(folder, real_kafka_here().broker_class_path) as nodes:
        first = options.seed * 10_000
        seeds = range(first, first + options.count)
        return "", fuzz(nodes, sources, folder, seeds=seeds, families=families, show=show)


def main():
    return run_fuzz(
        __doc__,
        300,
        fuzz_all,
        row="`verify`, `doctor`",
        flags=[("--make-bases", "make the log directories of the cases again first")],
    )


if __name__ == "__main__":
    sys.exit(main())

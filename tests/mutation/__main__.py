"""Mutate the boundaries of the layers from format to ops, and report the mutants that no test notices.

A mutant swaps `<` and `<=` or `>` and `>=` once, or drops `+ 1` or `- 1` once. The tests that execute its line run on a copy
of the tree until a test fails. First they run without a mutant, and nothing is tried if a test fails then. A mutant that survives needs a test, or an entry in tests/mutation/equivalent.txt with the
reason why it changes nothing that anyone could see. tests/mutation/tried.txt keeps the results, and a run goes on where the last run ended.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.mutation.mutants import Mutant, equivalent, mutants_of
from tests.mutation.results import Results, TestMap, digest
from tests.mutation.runs_of_tests import WITHOUT_A_MUTANT, Chosen, CopiedTree, EachInPlace

TREE = Path(__file__).parents[2]
LAYERS = [f"kafkalog_cli/{layer}" for layer in ("format", "disk", "log", "change", "broker", "ops")]
KINDS = {"killed": "killed", "hangs": "killed", "survives": "survive", "no": "not run"}
"""Per first word of a verdict. A mutant that no recorded test executes waits for more recorded tests."""
EQUIVALENT = Path(__file__).with_name("equivalent.txt")
TRIED = Path(__file__).with_name("tried.txt")


def all_mutants(tree: Path, below: list[str]) -> list[Mutant]:
    """Return the mutants of the files under the given folders; compiled kernels are left out, as no line of theirs is seen."""
    paths = [
        path for name in below for path in ([tree / name] if name.endswith(".py") else (tree / name).rglob("*.py"))
    ]
    found = []
    for path in sorted({path for path in paths if "kernels" not in path.parts}):
        found += mutants_of(str(path.relative_to(tree)), path.read_text())
    return found


def attempt(mutant: Mutant, tree: CopiedTree, paths: list[str], names: list[str], most_seconds: float) -> str:
    """Run tests of test files in a new process that imports the mutant, all without names; return a verdict."""
    source = (tree.root / mutant.path).read_text()
    tree.write(mutant.path, mutant.apply(source))
    try:
        answer = tree.run(["-x", *paths], Chosen(names), most_seconds)
    finally:
        tree.write(mutant.path, source)
    return "hangs" if answer is None else verdict_of(answer or "failed a crash")


def check_green(answer: str | None) -> None:
    """Raise SystemExit unless this is the answer of tests that pass: a test that fails without a mutant shows nothing."""
    if answer is None or not answer.startswith("passed"):
        reason = {None: "they hang", "": "a crash"}.get(answer, answer)
        raise SystemExit(f"nothing was tried, since the tests fail without a mutant: {reason}")


def verdict_of(answer: str) -> str:
    """Return `killed by TEST`, `survives N tests`, `no test executes it` or `hangs`."""
    found, _, what = answer.partition(" ")
    return {"failed": f"killed by {what}", "passed": f"survives {what} tests"}.get(found, answer).replace(
        "survives 0 tests", "no test executes it"
    )


def verdicts(
    mutants: list[Mutant], tree: CopiedTree, tests: TestMap, most_seconds: float
) -> Iterator[tuple[Mutant, str]]:
    """Yield how each mutant ends by the recorded tests: nearly all of them in place, the others with a new import."""
    sources = {mutant.path: (tree.root / mutant.path).read_text() for mutant in mutants}

    def chosen(mutant: Mutant, killers: Counter[str]) -> dict[str, float]:
        return tests.chosen(mutant, sources[mutant.path], killers, most_seconds)

    names = {mutant: list(chosen(mutant, Counter())) for mutant in mutants}
    in_place = [mutant for mutant in mutants if names[mutant] and not mutant.runs_at_import]
    others = [mutant for mutant in mutants if names[mutant] and mutant.runs_at_import]
    yield from ((mutant, "no test executes it") for mutant in mutants if not names[mutant])
    files = sorted({name.partition("::")[0] for mutant in in_place for name in names[mutant]})
    for line in tree.lines(files, EachInPlace(tree, in_place, chosen)) if in_place else ():
        number, _, answer = line.partition(" ")
        if number == WITHOUT_A_MUTANT:
            check_green(answer)
        elif answer == "not in place":
            others.append(in_place[int(number)])
        else:
            yield in_place[int(number)], verdict_of(answer)
    if others:
        every = {name: took for mutant in others for name, took in chosen(mutant, Counter()).items()}
        files = sorted({name.partition("::")[0] for name in every})
        check_green(tree.run(["-x", *files], Chosen([*every]), 60 + 10 * sum(every.values())))
    for mutant in others:
        files = sorted({name.partition("::")[0] for name in names[mutant]})
        limit = 30 + 5 * sum(chosen(mutant, Counter()).values())
        yield mutant, attempt(mutant, tree, files, names[mutant], limit)


def run(options: argparse.Namespace) -> int:
    """Try the mutants without a result; print each survivor."""
    spared = equivalent(EQUIVALENT)
    # All is read from the copy: whoever edits the tree meanwhile changes nothing in this run.
    tree = CopiedTree(TREE, options.folder)
    try:
        found = all_mutants(tree.root, options.below)
        results = Results(TRIED, found)
        waiting = [m for m in found if m.key not in spared and not results.settles(m, options.again)]
        if options.sample:
            waiting = random.Random(options.seed).sample(waiting, min(options.sample, len(waiting)))
        if options.tests:
            check_green(tree.run(["-x", *options.tests], Chosen([]), 10 * options.seconds) if waiting else "passed 1")
            ends = ((mutant, attempt(mutant, tree, options.tests, [], options.seconds)) for mutant in waiting)
        else:
            ends = verdicts(waiting, tree, TestMap(options.folder), options.seconds)
        for number, (mutant, verdict) in enumerate(ends, 1):
            results.add(mutant, KINDS[verdict.partition(" ")[0]])
            print(f"{number}/{len(waiting)} {mutant.path}:{mutant.line}: {verdict}", flush=True)
            if not verdict.startswith(("killed", "hangs")):
                print(f"    {mutant.key}", flush=True)
    finally:
        tree.remove()
    return score(options)


def score(options: argparse.Namespace) -> int:
    """Print the mutants that survived, and the counts per layer; return 1 if there are any."""
    spared = equivalent(EQUIVALENT)
    mutants = all_mutants(TREE, options.below)
    results = Results(TRIED, mutants)
    counts: dict[str, Counter[str]] = {}
    unnoticed = []
    for mutant in mutants:
        kind = "equivalent" if mutant.key in spared else results.of(mutant)
        counts.setdefault(mutant.path.split("/")[1], Counter())[kind] += 1
        if kind == "survive":
            unnoticed.append(f"{mutant.path}:{mutant.line}: survives\n    {mutant.key}")
    print("\n".join(unnoticed))
    for layer, found in counts.items():
        parts = [f"{found[kind]} {kind}" for kind in ("killed", "equivalent", "survive", "not run")]
        print(f"{layer}: {found.total()} mutants: " + ", ".join(parts))
    return 1 if unnoticed else 0


def record(options: argparse.Namespace) -> int:
    """Record which test executes which line, for each test file that has changed since it was recorded."""
    tree = CopiedTree(TREE, options.folder)
    try:
        for path in options.tests or ["tests"]:
            files = [TREE / path] if path.endswith(".py") else sorted((TREE / path).rglob("test_*.py"))
            for file in files:
                begun = time.monotonic()
                name = str(file.relative_to(TREE))
                what = TestMap.record(options.folder, tree, name, digest(TREE / name), LAYERS, options.seconds)
                print(f"{time.monotonic() - begun:.0f} s {name}: {what}", flush=True)
    finally:
        tree.remove()
    return 0


def prune() -> int:
    """Remove the entries of equivalent.txt and tried.txt whose lines are gone."""
    mutants = all_mutants(TREE, LAYERS)
    Results(TRIED, mutants).prune()
    keys = {mutant.key for mutant in mutants}
    parts = EQUIVALENT.read_text().rstrip("\n").split("\n\n")
    EQUIVALENT.write_text(
        "\n\n".join([parts[0], *(part for part in parts[1:] if part.partition("\n")[0] in keys)]) + "\n"
    )
    return 0


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--folder", type=Path, default=TREE / ".mutation", help="folder of the map and of the results")
    verbs = parser.add_subparsers(dest="verb", required=True)
    recording = verbs.add_parser("map", help="record which test executes which line")
    recording.add_argument("tests", nargs="*", help="test files or folders; all without any")
    recording.add_argument("--seconds", type=float, default=600, help="leave a test file out that takes longer")
    verbs.add_parser("prune", help="remove results and reasons of mutants whose lines are gone")
    for verb, text in (("run", "try mutants, then print the score"), ("score", "print the score")):
        trying = verbs.add_parser(verb, help=text)
        trying.add_argument("--below", action="append", help="a folder or file of the package (repeatable)")
        if verb == "run":
            trying.add_argument("--sample", type=int, default=0, help="number of mutants to try; 0 is all")
            trying.add_argument("--seed", type=int, default=1, help="chooses the sample")
            trying.add_argument("--again", action="store_true", help="try the survivors again")
            trying.add_argument("--seconds", type=float, default=120, help="longest time of the tests of one mutant")
            trying.add_argument(
                "--with", dest="tests", action="append", help="tests to run instead of the recorded ones"
            )
    options = parser.parse_args()
    if options.verb == "map":
        return record(options)
    if options.verb == "prune":
        return prune()
    options.below = options.below or LAYERS
    return run(options) if options.verb == "run" else score(options)


if __name__ == "__main__":
    sys.exit(main())

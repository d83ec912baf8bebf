"""recover --like-broker against the real loader of today, on hundreds of damaged partitions."""

import os

import pytest
from loader_agreement import (
    RealLoader,
    contents,
    differences,
    make_case,
    our_command_outcome,
    our_outcome,
    source_partitions,
)

CASES = int(os.environ.get("KAFKALOG_LOADER_CASES", "500"))
FIRST = int(os.environ.get("KAFKALOG_LOADER_SEED", "1"))


@pytest.fixture(scope="module")
def loader(real_kafka):
    real = RealLoader(real_kafka.class_path)
    yield real
    real.close()


def test_the_real_loader_agrees(loader, corpus, tmp_path):
    """Each case by the library; every tenth by the command too, whose directory must be the same in the end."""
    sources = source_partitions(corpus)
    failed, refused = [], 0
    for seed in range(FIRST, FIRST + CASES):
        directory = tmp_path / f"{seed}" / "t-0"
        directory.parent.mkdir()
        case = make_case(seed, sources, directory)
        ours = our_outcome(directory, case)
        command = our_command_outcome(directory, case) if seed % 10 == 0 else None
        real = loader.outcome(directory, case)
        found = differences(ours, real)
        if command is not None and not found:
            found = command_differences(command, real)
        refused += real.thrown is not None
        failed += [f"{case}: {'; '.join(found)}"] if found else []
    print(f"{CASES} cases from seed {FIRST} on, {refused} refused by both, {len(failed)} differ")
    assert not failed, "\n".join(failed)
    assert CASES // 20 < refused < CASES // 3


def command_differences(command, real):
    """The command's checkpoint holds the log end, as after the broker's clean stop."""
    if command.thrown or real.thrown:
        return [] if command.thrown and real.thrown else ["the command ends otherwise"]
    found = [] if command.offsets == (real.offsets[1],) else [f"recovery point {command.offsets}"]
    return found + [f"{name} by the command" for name, data in real.files.items() if command.files.get(name) != data]


def test_the_same_twice(loader, corpus, tmp_path):
    """The driver itself: the same case gives the same."""
    sources = source_partitions(corpus)
    for seed in range(900, 920):
        outcomes = []
        for turn in ("first", "second"):
            directory = tmp_path / turn / f"{seed}" / "t-0"
            directory.parent.mkdir(parents=True)
            case = make_case(seed, sources, directory)
            before = contents(directory)
            outcomes.append((before, loader.outcome(directory, case)))
        assert outcomes[0] == outcomes[1]

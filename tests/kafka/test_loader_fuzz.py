"""`recover --like-broker` against the real loader: damaged partitions, the same files from both.

`make fuzz-loader` tries many. That the driver of the real loader is right
is shown with what real brokers left in the corpus.
"""

import itertools
import struct

import pytest

from tests.crash.log_directories import batch
from tests.kafka import damage
from tests.kafka.fuzz_loader import fuzz, sources_for
from tests.kafka.loader_cases import (
    Outcome,
    RealLoader,
    Start,
    compare,
    contents,
    differences,
    file_differences,
    make_case,
    random_source,
    txn_index_case,
    write,
)
from tests.support.effort import DIAL
from tests.support.product import RealFilesystem
from tests.support.product_kafka import open_partition, segment_end

pytestmark = pytest.mark.xdist_group("loader")  # what its fixtures make is made once

CASES = DIAL.part(500)
CORPUS_NOW_MS = 1_800_000_000_000
REFUSED = {"crash-flip-offset", "clean-zero-tail"}


@pytest.fixture(scope="module")
def real(real_kafka):
    with RealLoader(real_kafka.class_path) as loader:
        yield loader


def test_recover_leaves_of_damaged_partitions_what_the_real_loader_leaves(real, corpus, tmp_path, capsys):
    different = []
    sources = sources_for(CASES, 1, real, corpus, tmp_path)
    tally = fuzz(
        real, sources, tmp_path, seed=1, count=CASES, show=lambda case, found: different.append(f"{case}: {found}")
    )
    with capsys.disabled():
        print(f" {tally} ", end="")
    assert not different, "\n".join(different)
    assert tally.tried == CASES
    assert 0.1 * CASES < tally.refused < 0.5 * CASES  # they are neither mostly sound nor mostly hopeless


def test_every_kind_of_damage_is_tried(real, corpus, tmp_path):
    """Each of them changes files, of some case."""
    sources = sources_for(100, 1, real, corpus, tmp_path)
    tried = set()
    for seed in range(1000):
        case = make_case(seed, sources)
        files = case.source.files
        for one in case.damages:
            after = damage.apply(files, [one])
            tried |= {one[0]} if after != files else set()
            files = after
    assert tried == {*damage.KINDS}


@pytest.mark.parametrize("entry", [*itertools.product((-1, 0, 1), (-8, -1, 0, 7, 1 << 20))], ids=str)
def test_the_end_after_a_clean_stop_goes_by_the_last_index_entry(real, tmp_path, entry):
    """However the entry lies: the two ends are the same, and where a broker's is too early there is a fault."""
    logs = {0: batch(0, 14)[0], 14: batch(14, 1)[0]}
    files = {f"{base:020d}.{kind}": b"" for base in logs for kind in ("index", "timeindex")}
    files |= {f"{base:020d}.log": data for base, data in logs.items()}
    directory = write(files | {f"{14:020d}.index": struct.pack(">ii", *entry)}, tmp_path / "t-0")
    segment = open_partition(RealFilesystem(), str(directory)).segments[-1]
    end = segment_end(RealFilesystem(), segment, like_clean_start=True)
    assert bool(end.index_faults) == (end.next_offset != 15)
    real.begin(directory, Start(True, 14, 0), stops=False)
    outcome = real.outcome(directory)
    assert (outcome.thrown, outcome.offsets[1]) == (None, end.next_offset)


@pytest.mark.parametrize("version", [0, 1, 255, 256, -1, -32768])
def test_a_version_in_a_transaction_index_is_read_as_by_that_release(real, tmp_path, version):
    """Before Kafka 4.4 only the first byte counts, and a negative one is accepted."""
    found, outcome = compare(txn_index_case(version, real.version), real, tmp_path, with_command=True)
    assert found == []
    is_read = version >> 8 <= 0 if real.version.is_before_4_4 else version == 0
    assert (outcome.thrown is None) is is_read


# -- the driver


def test_the_real_loader_makes_of_the_corpus_what_a_broker_made_of_it(real, corpus, tmp_path):
    tried = set()
    for path in sorted(corpus.glob("c*-*/before/c*-0")):
        name = path.parts[-3]
        if name.startswith(("crash-", "clean-")):
            after = corpus / name / "after" / f"{name}-0"
            outcome = load(real, path, tmp_path, is_clean=name.startswith("clean-"))
            assert (outcome.thrown is not None) == (name in REFUSED), (name, outcome.thrown)
            files = contents(tmp_path / path.name)
            if outcome.thrown is None:
                assert outcome.offsets[1] == checkpoint_line_of(after, "recovery-point"), name
                files["leader-epoch-checkpoint"] = with_broker_epochs(
                    files["leader-epoch-checkpoint"], outcome.offsets[1]
                )
            assert file_differences(files, contents(after)) == [], name
            tried.add(name)
    assert len(tried) == 52


def test_the_real_loader_leaves_the_files_of_a_running_broker(real, corpus, tmp_path):
    outcome = load(real, corpus / "crash-asis" / "before" / "crash-asis-0", tmp_path, is_clean=False, stops=False)
    running = contents(corpus / "crash-asis" / "running" / "crash-asis-0")
    outcome.files["leader-epoch-checkpoint"] = with_broker_epochs(
        outcome.files["leader-epoch-checkpoint"], outcome.offsets[1]
    )
    assert file_differences(outcome.files, running) == []
    assert len(running["00000000000000000095.index"]) == 4096


def test_random_damage_of_the_same_seed_is_loaded_alike_twice(real, corpus, tmp_path):
    count = DIAL.part(60)
    sources = sources_for(count, 7, real, corpus, tmp_path)
    for seed in range(count):
        outcomes = []
        for turn in ("first", "second"):
            case = make_case(seed, sources)
            directory = write(case.files(), tmp_path / turn / str(seed) / "t-0")
            real.begin(directory, case.start)
            outcome = real.outcome(directory)
            outcomes.append(outcome if outcome.thrown is None else contents(directory))
        assert outcomes[0] == outcomes[1]
    assert random_source(real, tmp_path, 5) == random_source(real, tmp_path, 5)


def test_the_comparison_of_loaded_logs_finds_each_difference():
    one = Outcome(None, (0, 9, 9, None), {"a.log": b"x", "9.snapshot": b"y"})
    assert differences(one, one) == []
    assert differences(one, one._replace(offsets=(0, 8, 9, None))) != []
    assert differences(one, one._replace(files={"a.log": b"x"})) != []
    assert differences(one._replace(files={"a.log": b"x"}), one) != []
    assert differences(one, one._replace(files={**one.files, "a.log": b"z"})) != []
    assert differences(one, Outcome(("KafkaException", ""))) != []
    assert differences(Outcome(("KafkaException", "")), one) != []


def load(real, path, folder, *, is_clean, stops=True):
    directory = write(contents(path), folder / path.name)
    start = Start(is_clean, checkpoint_line_of(path, "recovery-point") or 0, checkpoint_line_of(path, "log-start") or 0)
    real.begin(directory, start, now_ms=CORPUS_NOW_MS, stops=stops)
    return real.outcome(directory)


def checkpoint_line_of(directory, name):
    lines = (directory.parent / f"{name}-offset-checkpoint").read_text().splitlines()[2:]
    return {line.rsplit(" ", 2)[0]: int(line.rsplit(" ", 1)[1]) for line in lines}.get(directory.name[:-2])


def with_broker_epochs(data, log_end):
    """A broker that becomes the leader notes its old epoch, then its new one, both from the log's end on."""
    entries = [tuple(map(int, line.split())) for line in data.decode().splitlines()[2:]]
    for epoch in (0, 2):
        if not entries or entries[-1][0] != epoch or entries[-1][1] > log_end:
            while entries and (entries[-1][0] >= epoch or entries[-1][1] >= log_end):
                entries.pop()
            entries.append((epoch, log_end))
    return f"0\n{len(entries)}\n{''.join(f'{epoch} {start}' + chr(10) for epoch, start in entries)}".encode()

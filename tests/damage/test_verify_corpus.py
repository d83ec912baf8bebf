"""verify on every directory of real brokers: nothing to say of what is sound, and of each damage just what was done.

The damages are those of kit/corpus_more.py (`damage.txt` of each case); the word for each is written down here.
"""

import shutil
import struct

import pytest

from tests.support.verifying_paths import errors_of, verified

NOW_MS = 1_795_300_000_000
"""A time after the corpus was made (November 2026)."""

ENTRY_BYTES = 34
"""Of a transaction index."""

STATES = ("data", "before", "after", "before2", "after2", "running", "after-restart", "after-cleaner")
QUICK, NORMAL, DEEP = "quick", "normal", "deep"
EVERY = (QUICK, NORMAL, DEEP)
READ = (NORMAL, DEEP)

TAIL_LOST = {"high-watermark-beyond-end": EVERY}  # the last records had been replicated, as far as one broker does

DAMAGE = {
    # what was done: {finding: the levels that see it}
    "bad-index-size": {"offset-index-inexact": EVERY},
    "bad-snapshot": {"producer-snapshot-wrong": READ},
    "cleaned": {"leftover-cleaned": EVERY},
    "cut-header": {"torn-tail": EVERY, "entries-behind-tail": READ, **TAIL_LOST},
    "cut-len": {"torn-tail": EVERY, **TAIL_LOST},
    "del-epoch": {"leader-epochs-missing": READ},
    "del-first-index": {"offset-index-missing": EVERY},
    "del-index": {"offset-index-missing": EVERY},
    "del-snapshots": {"producer-snapshots-missing": READ},
    "del-timeindex": {"time-index-missing": EVERY},
    "deleted": {},
    # The log was cut to nothing, its indexes were not: nothing in the log tells.
    "empty-tail": {"offset-index-wrong": READ, "time-index-wrong": READ, **TAIL_LOST},
    "flip-epoch": {"leader-epochs-wrong": READ},  # a later epoch in the last batch: headers alone do not tell
    "flip-first-seg": {"crc-mismatch": READ},
    # The chain breaks behind the batch with the damaged length: what follows it is of no batch.
    "flip-len": {"damaged-range": EVERY, "crc-mismatch": READ, "end-not-seen": READ},
    "flip-magic": {"unknown-magic": EVERY},
    "flip-mid": {"crc-mismatch": READ},
    # The offset of a batch went far down, and the log with it: what points at the end is wrong, too.
    "flip-offset": {
        "offsets-not-ascending": EVERY,
        "producer-snapshot-beyond-end": READ,
        "end-not-seen": READ,
        "offset-index-wrong": READ,
        "time-index-wrong": READ,
        **TAIL_LOST,
    },
    "flip-tail": {"bad-tail-batch": READ},
    "gap": {"missing-offsets": EVERY},
    "garbage-index": {"offset-index-wrong": READ, "time-index-wrong": READ, "end-not-seen": READ},
    "garbage-tail": {"torn-tail": EVERY},
    "huge-len": {"damaged-range": EVERY, "end-not-seen": READ},
    "orphan-index": {"orphan-index": EVERY},
    "plausible-index": {"offset-index-wrong": READ},
    "swap": {"leftover-swap": EVERY},
    "swap-cleaned": {"leftover-swap": EVERY, "leftover-cleaned": EVERY},
    "torn": {"torn-tail": EVERY, **TAIL_LOST},
    "zero-index": {"index-zero-tail": READ},
    "zero-tail": {"zero-tail": EVERY},
    "asis": {},
}
CLEAN_TOO = {
    # The broker had acknowledged it, and stopped cleanly: it was whole then.
    "flip-tail": {"crc-mismatch": READ},
    # After a clean stop the index of the last segment ends there, and the recovery point is the end.
    "torn": {"end-not-seen": READ, "entries-behind-tail": READ, "recovery-point-beyond-end": EVERY},
}
CLEAN_NOT = {"garbage-index": {"end-not-seen"}, "flip-tail": {"bad-tail-batch"}}
"""The garbage in the index happens to lead a broker to the log's end."""

CORRUPT = {"crc-mismatch", "damaged-range", "unknown-magic", "offsets-not-ascending", "offset-index-wrong",
           "time-index-wrong", "leader-epochs-wrong", "producer-snapshot-wrong"}  # fmt: skip


def verify(paths, level):
    results = verified(paths, level, now_ms=NOW_MS)
    assert errors_of(results) == []
    return results


def told(results):
    """Kinds of what is a warning or worse."""
    return {one.kind for result in results for one in result.findings if one.severity != "info"}


def is_sound(case):
    return not case.startswith(("crash-", "clean-", "format-0.7")) or case.endswith("-asis")


@pytest.mark.exhaustive
@pytest.mark.parametrize("level", EVERY)
def test_verify_finds_nothing_in_the_sound_logs_of_the_corpus(corpus, level):
    tried = 0
    for case in sorted(path for path in corpus.iterdir() if is_sound(path.name)):
        for state in STATES:
            if (case / state).is_dir():
                results = verify([case / state], level)
                assert not told(results), (case.name, state)
                assert not any(result.exit_code for result in results)
                tried += 1
    assert tried >= 40


@pytest.mark.parametrize("level", EVERY)
def test_verify_finds_nothing_in_logs_that_a_broker_recovered_but_for_what_brokers_keep(corpus, level):
    """It keeps a batch with an odd magic or epoch, and what it did not look at after a clean stop."""
    kept = {"crash-flip-magic", "crash-flip-epoch", "crash-flip-offset", "crash-gap"}
    for case in sorted(corpus.glob("crash-*")):
        if case.name not in kept:
            assert not told(verify([case / "after"], level)) - {"leader-epochs-missing"}, case.name


@pytest.mark.parametrize("level", EVERY)
def test_each_damage_has_its_findings(corpus, level):
    cases = sorted([*corpus.glob("crash-*"), *corpus.glob("clean-*")])
    assert len(cases) == 52
    for case in cases:
        stop, _, damage = case.name.partition("-")
        expected = dict(DAMAGE[damage])
        if stop == "clean":
            expected |= CLEAN_TOO.get(damage, {})
            expected = {kind: levels for kind, levels in expected.items() if kind not in CLEAN_NOT.get(damage, ())}
        kinds = {kind for kind, levels in expected.items() if level in levels}
        results = verify([case / "before"], level)
        assert told(results) == kinds, case.name
        code = 4 if kinds & CORRUPT else 3 if kinds else 0
        assert max(result.exit_code for result in results) == code, case.name


def transaction_indexes(corpus):
    return sorted(path for path in (corpus / "txn" / "data").glob("*/*.txnindex") if path.stat().st_size)


def test_verify_finds_aborted_transactions_missing_from_the_index(corpus, tmp_path):
    tried = 0
    for path in transaction_indexes(corpus):
        size = path.stat().st_size
        for kept in {0, size - ENTRY_BYTES, None}:
            folder = tmp_path / f"{path.parent.name}-{path.name}-{kept}" / path.parent.name
            shutil.copytree(path.parent, folder)
            index = folder / path.name
            if kept is None:
                index.unlink()
            else:
                index.write_bytes(path.read_bytes()[:kept])
            for level in READ:
                (result,) = verify([folder], level)
                (found,) = [one for one in result.findings if one.severity != "info"]
                assert (found.kind, found.path) == ("txn-index-wrong", str(index))
                assert found.severity == "corruption"
                lost = size // ENTRY_BYTES if kept is None else (size - kept) // ENTRY_BYTES
                more = f"; {lost - 1} more are missing" if lost > 1 else ""
                producer, first, last = struct.unpack_from(">2xqqq", path.read_bytes(), size - lost * ENTRY_BYTES)
                offsets = f"producer {producer}, offsets {first} to {last}"
                assert found.message == f"no entry for an aborted transaction of {offsets}{more}"
            tried += 1
    assert tried >= 2


def test_compacted_logs_of_real_brokers_have_no_missing_offsets_without_their_log_directory(corpus, tmp_path):
    """No checkpoint and no setting says that they are compacted. Headers of message sets show no sign of the cleaner."""
    cases = [*corpus.glob("compact-*"), *corpus.glob("internal"), *corpus.glob("txn")]
    found = sorted(path for case in cases for path in case.glob("*/*-[0-9]*") if list(path.glob("*.log")))
    folders = [path for path in found if not path.name.endswith("-delete") and path.parents[1].name != "compact-old"]
    assert len(folders) > 20
    for at, folder in enumerate(folders):
        alone = tmp_path / f"{at}" / folder.name
        shutil.copytree(folder, alone)
        for level in (QUICK, NORMAL):
            assert "missing-offsets" not in told(verify([alone], level)), folder

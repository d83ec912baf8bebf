"""What `--explain` says of each record is what the cleaning does with it: keys of the corpus' logs."""

from collections import Counter

import pytest

from tests.golden.test_compact_corpus import compacted, configs, decoded
from tests.support.commands import json_of, kafkalog, writable_copy

NOW_MS = 1_795_300_000_000
CONTROL = 0x20
EVERY = 4
"""One of so many keys is looked at."""


def records_of(directory):
    """Offset to key, of what is no control record."""
    return {
        record.offset: record.key
        for path in sorted(directory.glob("*.log"))
        for batch, records in decoded(path)
        for record in records
        if not batch.attributes & CONTROL
    }


def explained(log_dir, topic, config, key):
    """What is printed of each record with the key."""
    settings = [word for name, value in config.items() for word in ("--config", f"{name}={value}")]
    argv = ("compact", log_dir / f"{topic}-0", *settings, "--now", NOW_MS, "--dry-run", "--explain", key.decode())
    code, (result, _), _ = json_of(*argv)
    assert code == 0
    return result["explained"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("stage", ["before", "before2"])
def test_explain_lists_each_record_of_a_key_with_its_fate(corpus, tmp_path, stage):
    reasons = Counter()
    for name in ("compact-edge", "compact-tx"):
        log_dir = writable_copy(corpus / name / stage, tmp_path / name)
        for directory in sorted(log_dir.glob("cmp*-0")):
            topic = directory.name[:-2]
            config = configs(corpus / name)[topic]
            before = records_of(directory)
            keys = sorted({key for key in before.values() if key is not None})[::EVERY]
            going = set()
            for key in keys:
                found = explained(log_dir, topic, config, key)
                assert [one["offset"] for one in found] == [at for at in before if before[at] == key]
                reasons.update(one["reason"] for one in found)
                going.update(one["offset"] for one in found if one["goes"])
            if compacted(log_dir, topic, config, NOW_MS)["run"] is not None:
                after = records_of(directory)
                assert going == {at for at in before if before[at] in keys and at not in after}
    assert set(reasons) >= {"last-of-its-key", "superseded", "transaction-aborted", "not-cleanable"}, reasons


def test_explain_prints_a_key_as_text(corpus, tmp_path):
    writable_copy(corpus / "compact-tx" / "before", tmp_path / "data")
    options = ("compact", tmp_path / "data" / "cmp-tx-0", "--config", "cleanup.policy=compact", "--now", NOW_MS)
    code, out, _ = kafkalog(*options, "--dry-run", "--explain", "key-00012")
    lines = [line.strip() for line in out.splitlines() if line.startswith("  offset")]
    assert code == 0
    assert lines[0].startswith("offset 0 (segment 0, 2023-11-14T22:13:20.000Z, 9 bytes): goes, ")
    assert any(line.endswith("has the same key") for line in lines)
    last = "  no record has this key\ndry run: nothing was changed\n"
    assert kafkalog(*options, "--dry-run", "--explain", "no such key")[1].endswith(last)
    assert kafkalog(*options, "--explain", "key-00012")[0] == 2

"""What `--explain` says of each record is what the cleaning does with it: keys of the corpus' logs."""

import shutil
from collections import Counter

import pytest

from kafkalog_cli.broker.cleaning.explaining import Reason
from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.ops.compact.plan import CompactRequest, plan_compact
from kafkalog_cli.ops.compact.verb import explain
from kafkalog_cli.ops.partition_state import Roots
from kafkalog_cli.ops.settings import SettingsSource
from tests.ops.test_compact_corpus import FS, compacted, configs, decoded
from tests.support.commands import kafkalog

NOW_MS = 1_795_300_000_000
EVERY = 4
"""One of so many keys is looked at."""


def records_of(directory):
    """Offset to key, of what is no control record."""
    return {
        record[0]: record[3]
        for path in sorted(directory.glob("*.log"))
        for batch, records in decoded(path)
        for record in records
        if not batch.is_control
    }


def planned(log_dir, topic, config, *, compiled):
    partition = open_partition(FS, str(log_dir / f"{topic}-0"))
    request = CompactRequest(
        NOW_MS, SettingsSource(FS, config, None), now_is_given=True, kernels=KernelChoice(forced=compiled)
    )
    return plan_compact(FS, partition, Roots(FS).state(str(log_dir), partition), request), request


@pytest.mark.exhaustive
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("stage", ["before", "before2"])
def test_each_record_of_a_key(corpus, tmp_path, stage, compiled):
    reasons = Counter()
    for name in ("compact-edge", "compact-tx"):
        log_dir = tmp_path / name
        shutil.copytree(corpus / name / stage, log_dir)
        for directory in sorted(log_dir.glob("cmp*-0")):
            topic = directory.name[:-2]
            config = configs(corpus / name)[topic]
            before = records_of(directory)
            keys = sorted({key for key in before.values() if key is not None})[::EVERY]
            plan, request = planned(log_dir, topic, config, compiled=compiled)
            fates = {}
            for key in keys:
                found = explain(FS, plan, request, [key]).explained
                assert [fate.offset for fate in found] == [at for at in before if before[at] == key]
                fates.update((fate.offset, fate.reason) for fate in found)
            reasons.update(fates.values())
            _, done = compacted(log_dir, topic, config, NOW_MS, compiled=compiled)
            if done is not None:
                after = records_of(directory)
                gone = {at for at in before if before[at] in keys and at not in after}
                assert {at for at, reason in fates.items() if reason.goes} == gone
    assert set(reasons) >= {Reason.LAST, Reason.SUPERSEDED, Reason.ABORTED, Reason.NOT_CLEANABLE}, reasons


def test_for_people(corpus, tmp_path):
    shutil.copytree(corpus / "compact-tx" / "before", tmp_path / "data")
    options = ("compact", tmp_path / "data" / "cmp-tx-0", "--config", "cleanup.policy=compact", "--now", NOW_MS)
    code, out, _ = kafkalog(*options, "--dry-run", "--explain", "key-00012")
    lines = [line.strip() for line in out.splitlines() if line.startswith("  offset")]
    assert code == 0
    assert lines[0].startswith("offset 0 (segment 0, 2023-11-14T22:13:20.000Z, 9 bytes): goes, ")
    assert any(line.endswith("has the same key") for line in lines)
    last = "  no record has this key\ndry run: nothing was changed\n"
    assert kafkalog(*options, "--dry-run", "--explain", "no such key")[1].endswith(last)
    assert kafkalog(*options, "--explain", "key-00012")[0] == 2

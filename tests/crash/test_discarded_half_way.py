"""A run that keeps nothing and stops half way names two commands. They end well, with the log that was asked for."""

import random
from dataclasses import replace

import pytest

from tests.crash.log_directories import PARTITION, records
from tests.crash.messages import candidates
from tests.crash.writers import NOW_MS, RECOVER, SETTINGS, TRUNCATE, TRUNCATE_FULLY, TRUNCATE_IN_A_BATCH, kafkalog
from tests.support.effort import DIAL
from tests.support.watched_fs import FailingFilesystem

WRITERS = [
    replace(one, name=f"{one.name}-discard", argv=(*one.argv, "--discard"))
    for one in (TRUNCATE, TRUNCATE_IN_A_BATCH, TRUNCATE_FULLY, RECOVER)
]
CASES = [(writer, fixture) for writer in WRITERS for fixture in writer.fixtures]
STEPS = "repeat the command, and then `kafkalog recover /log/t-0`"


@pytest.mark.exhaustive
@pytest.mark.parametrize(("writer", "fixture"), CASES, ids=[f"{writer.name}-{name}" for writer, name in CASES])
def test_the_commands_named_after_a_half_done_discard_complete_it(writer, fixture):
    undisturbed = writer.disk(fixture)
    if writer.act(undisturbed).code:
        pytest.skip("it has nothing to do here")
    verified = kafkalog(undisturbed, "verify", PARTITION, now_ms=NOW_MS + 2000).code
    found = candidates(writer, fixture, ("EIO", "ENOSPC"))
    half = 0
    for fault, for_ever, n in random.Random(f"{writer.name} {DIAL.scale}").sample(
        found, min(60 * DIAL.scale, len(found))
    ):
        disk = writer.disk(fixture)
        fs = FailingFilesystem(disk, fault, n, for_ever=for_ever)
        outcome = writer.act(fs)
        if "stopped half way" not in outcome.err:
            continue
        half += 1
        where = f"{fault} {for_ever} at {fs.failed[0][:3]}: {outcome}"
        assert STEPS in outcome.err, where
        again = writer.act(disk, token="0002")
        assert again.code == 0, f"{again} after {where}"
        recovered = kafkalog(disk, "recover", PARTITION, *SETTINGS, token="0003", now_ms=NOW_MS + 1000)
        assert recovered.code == 0, f"{recovered} after {where}"
        assert records(disk) == records(undisturbed), where
        left = kafkalog(disk, "verify", PARTITION, now_ms=NOW_MS + 2000)
        assert left.code in (0, verified), f"{left} after {where}"
    assert half or not writer.name.startswith("truncate")

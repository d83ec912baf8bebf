"""dump-log of what old brokers left against the real kafka-dump-log of today."""

import tarfile
from pathlib import Path

import pytest

from tests.kafka.agreement import assert_agree, run_ours

FIXTURES = Path(__file__).parents[1] / "fixtures"

OPTIONS = {
    ".log": ([], ["--deep-iteration"], ["--print-data-log"]),
    ".index": ([], ["--index-sanity-check"]),
    ".timeindex": ([], ["--index-sanity-check"]),
    ".snapshot": ([],),
    ".txnindex": ([],),
}
DECODERS = {"__consumer_offsets-0": "--offsets-decoder", "__transaction_state-0": "--transaction-log-decoder"}


@pytest.mark.full
@pytest.mark.parametrize("archive", ["format_switches.tar.xz", "old_releases/old_releases.tar.xz"])
def test_every_file_prints_the_same(real_kafka, tmp_path, archive):
    with tarfile.open(FIXTURES / archive) as tar:
        tar.extractall(tmp_path, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    commands = []
    for path in sorted((tmp_path / "corpus").rglob("*")):
        options = OPTIONS.get(path.suffix, ())
        if path.suffix == ".timeindex" and not path.with_suffix(".index").exists():
            continue  # the real tool would make it
        commands += [["--files", str(path), *one] for one in options]
        if path.suffix == ".log" and path.parent.name in DECODERS:
            commands.append(["--files", str(path), DECODERS[path.parent.name]])
    ours = [run_ours(argv, version=real_kafka.version) for argv in commands]
    failed = 0
    for argv, one, other in zip(commands, ours, real_kafka.dump(commands, tmp_path), strict=True):
        assert_agree(argv, one, other)
        failed += other.code
    assert len(commands) > 300
    assert failed < len(commands) / 20

"""Logs of Kafka 0.8.2 to 3.9 after a clean stop: sound at every level, and with the records that were produced.

tests/fixtures/old_releases/ has the directories and what made them: every codec of the time, compacted topics that were
cleaned, retention, a deleted topic, committed offsets, transactions, switches of log.message.format.version, and one
directory under release after release.
"""

import json
import re

import pytest

from tests.support.archives import FIXTURES, unpack
from tests.support.commands import kafkalog

CODECS = ("none", "gzip", "snappy", "lz4")
RELEASES = ("0.8.2.2", "0.9.0.1", "0.10.0.1", "0.10.1.1", "0.10.2.2", "0.11.0.3", "1.0.2", "2.0.1", "2.8.2", "3.9.1")
FORMATS = {"0.10.1.1-formats": 150, "0.11.0.3-formats": 250, "2.8.2-formats": 250}
STAGES = ("upgrades-0.8.2.2", "upgrades-0.10.1.1", "upgrades-0.11.0.3", "upgrades-2.8.2", "upgrades")
CASES = (*RELEASES, *FORMATS, *STAGES)


def has_transactions(case):
    """Whether the release has them; Kafka 0.11 was the first."""
    number = case.removeprefix("upgrades-")
    return "formats" not in case and not number.startswith(("0.8", "0.9", "0.10"))


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    target = tmp_path_factory.mktemp("old")
    unpack(FIXTURES / "old_releases" / "old_releases.tar.xz", target)
    return target / "corpus"


def produced(number, keys):
    """Key and value of a record, as old_releases/java/Produce.java makes them."""
    value = f"value-{number}-" + "0123456789" * (number % 7)
    return f"key-{number % keys}" if keys else None, None if number % 17 == 16 else value


def read(partition, *options):
    """(offset, (key, value)) of each record."""
    code, out, err = kafkalog("read", partition, "--format", "json", *options)
    assert code == 0
    assert not err or json.loads(err)["kind"] == "open-transaction"
    found = [json.loads(line) for line in out.splitlines()]
    assert found[-1]["type"] == "summary"
    return [
        (one["offset"], tuple(field and field["data"] for field in (one["key"], one["value"]))) for one in found[:-1]
    ]


def numbered(numbers, keys):
    return [(number, produced(number, keys)) for number in numbers]


@pytest.mark.exhaustive
@pytest.mark.parametrize("level", ["quick", "normal", "deep"])
@pytest.mark.parametrize("case", CASES)
def test_verify_finds_nothing_in_a_log_directory_of_a_clean_stop_of_any_release(old, case, level):
    code, out, err = kafkalog("verify", old / case, "--level", level, "--format", "json")
    assert (code, err) == (0, ""), out
    found = [json.loads(line) for line in out.splitlines()]
    assert {one["severity"] for one in found if one["type"] == "finding"} <= {"info"}


@pytest.mark.parametrize("case", CASES)
def test_read_prints_the_records_of_every_codec_of_any_release(old, case):
    codecs = (*CODECS, *(["zstd"] if case in {"2.8.2", "3.9.1"} else []))
    count = FORMATS.get(case) or (40 * (STAGES.index(case) + 1) if case in STAGES else 90)
    for codec in codecs:
        assert read(old / case / f"{codec}-0") == numbered(range(count), 5)


@pytest.mark.parametrize("case", [*RELEASES, *STAGES])
def test_read_prints_the_last_record_of_each_key_after_the_cleaner_of_any_release(old, case):
    """What the cleaner has not come to is whole; before that each key has its last record, and others are gone."""
    codecs = 5 if case in {"2.8.2", "3.9.1"} else 4
    count = 120 * (STAGES.index(case) + 1) if case in STAGES else 60 * codecs
    found = read(old / case / "compacted-0")
    offsets = [offset for offset, _ in found]
    assert found == numbered(offsets, 9)
    [cleaned] = re.findall(r"^compacted 0 (\d+)$", (old / case / "cleaner-offset-checkpoint").read_text(), re.MULTILINE)
    dirty = range(int(cleaned), count)
    last = {produced(number, 9)[0]: number for number in range(dirty.start)}
    kept = set(offsets) - set(dirty)
    assert offsets[len(kept) :] == list(dirty)
    assert kept <= set(range(dirty.start))
    assert {number for key, number in last.items()} - kept <= {number for number in last.values() if number % 17 == 16}
    assert len(kept) < dirty.start / 2


@pytest.mark.parametrize("case", RELEASES)
def test_read_prints_the_records_that_the_retention_of_any_release_left(old, case):
    found = read(old / case / "retained-0")
    first = found[0][0]
    assert 0 < first < 360
    assert found == numbered(range(first, 360), 0)


@pytest.mark.parametrize("case", [case for case in CASES if has_transactions(case)])
def test_read_committed_prints_the_committed_records_of_any_release(old, case):
    """20 records each: committed, aborted, committed; then 10 that are open, or that the next producer's start aborts."""
    topics = sorted((old / case).glob("transactions*-0"))
    assert len(topics) == (STAGES.index(case) - 1 if case in STAGES else 2)
    for topic in topics:
        assert [record for _, record in read(topic)] == [produced(number, 5) for number in range(70)]
        committed = [*range(20), *range(40, 60)]
        found = read(topic, "--isolation", "read_committed")
        assert [record for _, record in found] == [produced(number, 5) for number in committed]


@pytest.mark.parametrize("case", [*RELEASES, *STAGES])
def test_dump_log_decodes_the_last_commit_of_a_group_of_any_release(old, case):
    """The last commit of the group is the topic's end, in whichever version of the value the release writes."""
    code, out, err = kafkalog(
        "dump-log", old / case / "__consumer_offsets-0", "--offsets-decoder", "--skip-record-metadata"
    )
    assert (code, "Mismatch" in err) == (0, False)
    pattern = r'"group":"readers","topic":"gzip","partition":0}} payload: \{"version":"\d","data":\{"offset":(-?\d+),'
    assert int(re.findall(pattern, out)[-1]) == (40 * (STAGES.index(case) + 1) if case in STAGES else 90)

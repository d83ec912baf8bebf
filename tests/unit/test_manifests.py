"""What a manifest may say, which manifests a later run reads, and how much a JSON document may contain."""

import json
from dataclasses import replace

import pytest

from kafkalog_cli.change import manifest as manifests
from kafkalog_cli.change import runs
from kafkalog_cli.change.journal_undo import check_undo, undo
from kafkalog_cli.change.manifest import FORMAT, RunState, decode, encode, read_manifest, write_manifest
from kafkalog_cli.change.removal import entries_below
from kafkalog_cli.errors import Refused, UnsupportedFormat
from kafkalog_cli.format import strict_json
from kafkalog_cli.format.strict_json import parse, quote
from tests.crash.journal_cases import OWN, PARTITION, PLANS, ROOT, RUN, partition, run_plan
from tests.support.product_journal import apply

# -- What a manifest may say at the limits of its numbers, and which manifests a run that comes later reads


MANIFEST = f"{OWN}/{RUN.run_id}/manifest.json"
LARGEST = 2**63 - 1
"""What an int64 holds: sizes of files, and seconds since 1970, as the kernel gives them."""
PAST_TIME_NS = 2**63 * 10**9


def changed_mtime(mtime_ns):
    manifest = run_plan(partition(), PLANS["cut"])
    return encode(replace(manifest, before=manifest.before._replace(mtime_ns=mtime_ns)))


@pytest.mark.parametrize("mtime_ns", [-PAST_TIME_NS, -1, 0, LARGEST, LARGEST + 1, PAST_TIME_NS - 1])
def test_a_number_of_seconds_of_64_bits_is_a_time(mtime_ns):
    assert decode("m", changed_mtime(mtime_ns)).before.mtime_ns == mtime_ns


@pytest.mark.parametrize("mtime_ns", [-PAST_TIME_NS - 1, PAST_TIME_NS, 1.5, True, "1"])
def test_a_number_that_no_file_can_have_is_refused(mtime_ns):
    with pytest.raises(Refused, match=r"mtime_ns: .* is not a number"):
        decode("m", changed_mtime(mtime_ns))


def changed(edit):
    """The manifest of a run after `edit` of its document."""
    document = json.loads(encode(run_plan(partition(), PLANS["cut"])))
    edit(document)
    return json.dumps(document).encode()


FACTS = {
    "size_bytes": (0, LARGEST),
    "mtime_ns": (-PAST_TIME_NS, PAST_TIME_NS - 1),
    "inode": (0, 2**64 - 1),
    "mode": (0, 2**31 - 1),
}


@pytest.mark.parametrize("fact", FACTS)
def test_a_fact_of_a_file_has_the_range_of_the_kernels_number(fact):
    def with_fact(value):
        return changed(lambda document: document["before"]["files"]["00.log"].update({fact: value}))

    least, most = FACTS[fact]
    for value in (least, most):
        assert getattr(decode("m", with_fact(value)).before.files["00.log"], fact) == value
    for value in (least - 1, most + 1):
        with pytest.raises(Refused, match=f"{fact}: .* is not a number from"):
            decode("m", with_fact(value))


def test_a_name_has_the_255_bytes_of_a_directory_entry():
    def named(name):
        return changed(lambda document: document["changes"][0].update(name=name))

    longest = "é" * 127 + "x"
    assert decode("m", named(longest)).changes[0].name == longest
    with pytest.raises(Refused, match="is not the name of a file"):
        decode("m", named(longest + "x"))


def test_a_partition_is_an_int32():
    def of_partition(number):
        def edit(document):
            document["edits"][0]["partition"] = number
            for when in ("before", "after"):
                [old] = document[when]["checkpoint_lines"]
                old["lines"] = [{"topic": "t", "partition": number, "text": None, "place": None}]

        return changed(edit)

    for number in (-(2**31), 2**31 - 1):
        assert decode("m", of_partition(number)).edits[0].partition == number
    for number in (-(2**31) - 1, 2**31):
        with pytest.raises(Refused, match="is not a number from -2147483648 to 2147483647"):
            decode("m", of_partition(number))


def test_a_cut_to_the_size_that_it_has_is_a_cut():
    def to(size_bytes):
        return changed(lambda document: document["changes"][0].update(from_bytes=500, to_bytes=size_bytes))

    assert decode("m", to(500)).changes[0].to_bytes == 500
    with pytest.raises(Refused, match="is cut to more than it has"):
        decode("m", to(501))


@pytest.mark.parametrize(("version", "error"), [(2**31 - 1, UnsupportedFormat), (2**31, Refused)])
def test_a_format_that_no_kafkalog_will_have_is_no_format(version, error):
    with pytest.raises(error):
        decode("m", changed(lambda document: document.update(format=version)))


def test_a_manifest_is_written_up_to_the_size_that_is_read(monkeypatch):
    disk = partition()
    done = run_plan(disk, PLANS["cut"])
    size_bytes = len(encode(done))
    monkeypatch.setattr(manifests, "_LIMIT_BYTES", size_bytes)
    write_manifest(disk, PARTITION, done, None)
    monkeypatch.setattr(manifests, "_LIMIT_BYTES", size_bytes - 1)
    with pytest.raises(Refused, match=f"its manifest would have {size_bytes} bytes"):
        write_manifest(disk, PARTITION, done, None)


def test_a_manifest_is_read_up_to_the_limit_of_its_size(monkeypatch):
    disk = partition()
    run_plan(disk, PLANS["cut"])
    size_bytes = disk.status(MANIFEST).size_bytes
    monkeypatch.setattr(manifests, "_LIMIT_BYTES", size_bytes)
    assert read_manifest(disk, PARTITION, RUN.run_id).state is RunState.DONE
    monkeypatch.setattr(manifests, "_LIMIT_BYTES", size_bytes - 1)
    with pytest.raises(Refused, match=f"a manifest of {size_bytes} bytes"):
        read_manifest(disk, PARTITION, RUN.run_id)


def test_undo_of_an_earlier_run_names_the_later_runs_to_undo_first():
    disk = partition()
    first = run_plan(disk, PLANS["cut"])
    with disk.open_write(f"{PARTITION}/50.snapshot") as file:
        file.truncate(1)
    with pytest.raises(Refused, match="the files that the run kept are in") as alone:
        check_undo(disk, PARTITION, first, ROOT)
    assert "undo the later runs" not in str(alone.value)
    later = replace(RUN, run_id="20260102T000000Z-test-1")
    apply(disk, PARTITION, PLANS["drop"], run=later)
    with pytest.raises(
        Refused,
        match=f"in this order: `kafkalog undo {PARTITION} {later.run_id}`, `kafkalog undo {PARTITION} {RUN.run_id}`$",
    ):
        check_undo(disk, PARTITION, first, ROOT)


def test_a_run_that_has_nothing_but_its_manifest_is_not_asked_what_it_was():
    """Nothing of it can be left over: a manifest on a bad sector keeps nobody from the next run."""
    disk = partition()
    undo(disk, PARTITION, run_plan(disk, PLANS["cut"]), ROOT)
    assert [entry.path for entry in disk.list_directory(f"{OWN}/{RUN.run_id}")] == [MANIFEST]
    read = disk.open_read

    def open_read(path):
        assert path != MANIFEST, "read for nothing"
        return read(path)

    disk.open_read = open_read
    apply(disk, PARTITION, PLANS["drop"], run=replace(RUN, run_id="20260102T000000Z-test-1"))


def test_directories_of_a_run_may_be_nested_16_deep():
    disk = partition()
    disk.add(f"{OWN}/run/{'d/' * 16}file", b"x")
    found = entries_below(disk, f"{OWN}/run")
    assert [path.count("/d") for path, is_directory in found if is_directory] == list(range(16, 0, -1))
    disk.add(f"{OWN}/run/{'d/' * 17}file", b"x")
    with pytest.raises(Refused, match="nested more than 16 deep"):
        entries_below(disk, f"{OWN}/run")


def growing(disk, by):
    """What an append left that was cut off: `by` more bytes than before in 00.log, its manifest says GROWING."""
    done = run_plan(disk, PLANS["cut"])
    undo(disk, PARTITION, done, ROOT)
    with disk.open_write(f"{PARTITION}/00.log") as file:
        file.truncate(500 + by)
    [cut] = done.changes
    grown = cut._replace(kind=manifests.ChangeKind.GROW, kept=None, sha256=None)
    manifest = replace(done, state=RunState.GROWING, after=None, changes=(grown,))
    disk.add(MANIFEST, encode(manifest))
    return manifest


@pytest.mark.parametrize("by", [0, 1])
def test_an_append_that_was_cut_off_may_be_undone_before_its_first_byte_too(by):
    disk = partition()
    check_undo(disk, PARTITION, growing(disk, by), ROOT)


def test_an_append_that_was_cut_off_left_no_fewer_bytes_than_there_were():
    disk = partition()
    with pytest.raises(Refused, match=r"00\.log has 499 bytes, fewer than the 500 before"):
        check_undo(disk, PARTITION, growing(disk, -1), ROOT)


@pytest.mark.parametrize("size_bytes", [120, 121, 499, 500])
def test_a_cut_that_was_cut_off_may_be_undone_before_and_behind_it(size_bytes):
    """From 500 to 120 bytes: a file of either size, or between, is what the run may have left."""
    disk = partition()
    done = run_plan(disk, PLANS["cut"])
    with disk.open_write(f"{PARTITION}/00.log") as file:
        file.truncate(size_bytes)
    check_undo(disk, PARTITION, replace(done, state=RunState.STARTED, after=None), ROOT)


def test_the_manifest_is_json_that_names_its_format():
    assert json.loads(changed_mtime(5))["format"] == FORMAT


def test_no_run_gets_the_name_of_an_earlier_run_of_the_process(monkeypatch):
    """The clock of a demo may stand still, and the suffix has 65,536 values: an append found the run of the append before."""
    suffixes = iter(["ab12", "ab12", "ab12", "cd34"])
    monkeypatch.setattr("secrets.token_hex", lambda _: next(suffixes))
    names = [runs.new_run_id("append", 1_795_442_400_000) for _ in range(2)]
    assert names == [f"20261123T140000.000Z-append-{suffix}" for suffix in ("ab12", "cd34")]


# -- How much a document may contain before it is parsed, and how a value is quoted


OF_LISTS = b"[" + b" " * 30 + b"]"
OF_VALUES = b"[1,2,3,4,5,6" + b" " * 22 + b"]"


@pytest.mark.parametrize("most", [OF_LISTS, OF_VALUES], ids=["a list in 32 bytes", "a comma in 7 bytes, 6 at least"])
def test_a_document_is_parsed_up_to_its_share_of_lists_and_values(monkeypatch, most):
    monkeypatch.setattr(strict_json, "_FEW", 0)
    assert isinstance(parse(most), list)
    with pytest.raises(ValueError, match="more lists, objects and values than kafkalog writes"):
        parse(most.replace(b" ", b"", len(most) % 6 + 1))


def test_numbers_of_more_than_64_bits_are_not_shown():
    assert [quote(2**63 - 1), quote(-(2**63) + 1)] == [str(2**63 - 1), str(-(2**63) + 1)]
    assert [quote(2**63), quote(-(2**63))] == ["a number of many digits"] * 2

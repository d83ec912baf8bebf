"""Machine output is as docs/schemas says, and every kind of object has its schema there."""

import json
import re
import shutil

import pytest
from jsonschema import Draft202012Validator

from tests.conformance import record
from tests.damage.makers import LOGS
from tests.docs.consoles import ROOT
from tests.support.commands import kafkalog
from tests.support.faulty_fs import FaultyFilesystem
from tests.support.schemas import FILES, SCHEMAS, check

PROGRESS = "kafkalog.progress/1"  # of a run that takes more than a second
NAME = re.compile(r'"(kafkalog\.[a-z-]+/\d+)"')


def lines_of(*argv, **environment):
    """The exit code, and the lines of stdout and stderr."""
    ran = kafkalog(*argv, "--format", "json", **environment)
    return ran.code, ran.out.splitlines(), ran.err.splitlines()


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", record.recorded_cases())
def test_recorded_answers_are_as_their_schemas_say(case):
    """tests/conformance/test_record.py holds that commands answer so: readers, dry runs, salvage and refusals."""
    lines = [
        line.replace('"T}', "0}").replace(":T,", ":1,").replace(":T}", ":1}")
        for answers in record.read_answers(case).values()
        for answer in answers
        for stream in ("out", "err")
        for line in answer[stream].splitlines()
        if line.startswith('{"schema":"kafkalog.')
    ]
    assert len(check(lines)) > 3


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.name)
@pytest.mark.parametrize("redact", ["keys,values,headers", "keys=len,values,headers=hash", None])
def test_json_of_records_and_batches_of_every_generation_satisfies_its_schema(log, redact):
    path = f"/logs/orders-3/{0:020}.{'kafka' if log.is_v07 else 'log'}"
    more = () if redact is None else ("--redact", redact)
    _, out, _ = lines_of("dump-log", path, *more, fs=FaultyFilesystem({path: log.data}))
    assert check(out) == {"kafkalog.record/1", "kafkalog.batch/1", "kafkalog.summary/1"}


def test_each_schema_name_in_the_code_has_one_file():
    sources = [path.read_text() for path in (ROOT / "kafkalog_cli").rglob("*.py")]
    named = {name for source in sources for name in NAME.findall(source)}
    assert named == set(SCHEMAS)
    assert [file.name for file in FILES] == sorted(name.replace("/", "-") + ".json" for name in named)


@pytest.mark.parametrize("name", SCHEMAS)
def test_each_schema_file_is_a_valid_json_schema(name):
    schema = SCHEMAS[name]
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["properties"]["schema"] == {"const": name}
    assert schema["properties"]["type"] == {"const": name.removeprefix("kafkalog.").partition("/")[0]}
    assert {"schema", "type"} <= set(schema["required"]) <= set(schema["properties"])


def test_json_of_lookups_fits_its_schema(corpus):
    partition = str(corpus / "txn" / "data" / "tx-0")
    questions = [["--latest"], ["--earliest"], ["--max-timestamp"], ["1700000000000"], ["--latest", "--before", "3"]]
    for argv in (["lookup-offset", partition, "20"], *(["lookup-time", partition, *words] for words in questions)):
        code, out, _ = lines_of(*argv)
        assert code == 0
        assert check(out) == {"kafkalog.lookup/1", "kafkalog.summary/1"}
        check(json.dumps(thing["record"]) for thing in map(json.loads, out) if thing.get("record"))


@pytest.mark.parametrize("dry_run", [["--dry-run"], []])
def test_json_of_each_writer_fits_its_schema(corpus, tmp_path, dry_run):
    seen = set()
    shutil.copytree(corpus / "retention" / "before", tmp_path / "data")
    limits = ["--config", "retention.ms=60000000", "--config", "retention.bytes=8000"]
    policy = ["--config", "cleanup.policy=delete", "--now", "1795228795800"]
    root, one = str(tmp_path / "data"), ["--single-replica", "--now", "1795228795800", *dry_run]
    for argv in (
        ["roll", root, "--now", "1795228795800", "--config", "segment.ms=1", *dry_run],
        ["roll", root, "--now", "1795228795800", "--force", *dry_run],
        ["retain", root, *limits, *policy, *dry_run],
        ["retain", root, "--explain", *limits, *policy, *dry_run],
        ["retain", root, "--explain", *policy[2:], *dry_run],
        ["truncate", f"{root}/ret-future-0", "--to", "101", *one],
        ["append", f"{root}/ret-size-0", f"{root}/meta.properties", "--input", "lines", *one],
        ["delete-records", f"{root}/ret-records-0", "--before", "57", *one],
    ):
        code, out, err = lines_of(*argv)
        seen |= check(out) | check(err)
        assert json.loads(out[-1])["exit_code"] == code
    kinds = {"roll", "retention", "truncation", "deleted-records", "appended", "summary", "warning"}
    assert seen - {PROGRESS} == {f"kafkalog.{kind}/1" for kind in kinds}


@pytest.mark.parametrize("name", [".kafkalog-clean-shutdown", ".kafkalog-import"])
def test_json_of_kafkalogs_own_files_satisfies_its_schema(tmp_path, name):
    (tmp_path / name).write_bytes(b"")
    code, out, _ = lines_of("ls", str(tmp_path / name))
    assert (code, check(out)) == (0, {"kafkalog.file/1", "kafkalog.summary/1"})


def test_a_comparison_in_which_nothing_was_compared(corpus, tmp_path):
    source = corpus / "crash-asis" / "before" / "crash-asis-0"
    for name in ("a-0", "b-0"):
        shutil.copytree(source, tmp_path / name, ignore=shutil.ignore_patterns("partition.metadata"))
    _, out, _ = lines_of("verify", "--level", "quick", str(tmp_path / "a-0"), "--against", str(tmp_path / "b-0"))
    check(out)
    results = [json.loads(line) for line in out if '"type":"verification"' in line]
    assert 10 in {result["exit_code"] for result in results}


def test_an_append_that_did_not_end(corpus, tmp_path):
    """Its run can be undone, and purged when it is old: its state is `growing`."""
    shutil.copytree(corpus / "retention" / "before", tmp_path / "data")
    partition = str(tmp_path / "data" / "ret-size-0")
    lines = ["--input", "lines", "--single-replica", "--now", "1795228795800"]
    code, _, err = lines_of("append", partition, str(tmp_path / "data" / "meta.properties"), *lines)
    assert code == 0, err
    (manifest,) = (tmp_path / "data" / "ret-size-0" / ".kafkalog").glob("*/manifest*")
    changed = re.sub(r'"state": *"done"', '"state":"growing"', manifest.read_text())
    assert changed != manifest.read_text()
    manifest.write_text(changed)
    _, out, _ = lines_of("purge", partition, "--dry-run", "--now", "1995228795800")
    assert check(out) == {"kafkalog.purge/1", "kafkalog.summary/1"}
    _, out, _ = lines_of("undo", partition, manifest.parent.name, "--dry-run")
    assert '"state":"growing"' in out[0]
    check(out)

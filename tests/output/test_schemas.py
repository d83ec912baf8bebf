"""Machine output is as docs/schemas says, and every kind of object has its schema there."""

import copy
import io
import json
import re
import shutil
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from kafkalog_cli.cli.app import run
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.ops.checks.finding_kinds import FindingKind
from kafkalog_cli.output.record_json import RecordJsonOptions, topic_decode
from kafkalog_cli.output.redact import parse_redaction
from tests.bad_input.makers import LOGS
from tests.output.output_segments import CONTEXT, SEVEN, plain_lines

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "docs" / "schemas").glob("*.json"))
PROGRESS = "kafkalog.progress/1"  # of a run that takes more than a second
NAME = re.compile(r'"(kafkalog\.[a-z-]+/\d+)"')


def strict(schema):
    """The schema without room for fields that it does not name: what is undocumented fails."""
    schema = copy.deepcopy(schema)

    def close(part):
        if isinstance(part, dict):
            if "properties" in part:
                part.setdefault("additionalProperties", False)
            for item in part.values():
                close(item)
        elif isinstance(part, list):
            for item in part:
                close(item)

    close(schema)
    return schema


SCHEMAS = {schema["$id"]: schema for schema in (json.loads(file.read_text()) for file in FILES)}
SEVERAL_ORDERS = {"kafkalog.summary/1", "kafkalog.lookup/1"}  # the counts of commands; two kinds of answers
VALIDATORS = {name: Draft202012Validator(strict(schema)) for name, schema in SCHEMAS.items()}


def in_order(thing, schema):
    """Whether an object and the objects in it have their fields in the order of the declaration."""
    if isinstance(thing, list):
        return all(in_order(item, schema["items"]) for item in thing)
    if not isinstance(thing, dict):
        return True
    parts = [part["properties"] for part in schema.get("oneOf", [schema]) if "properties" in part]
    properties = next((part for part in parts if thing.keys() <= part.keys()), None) or schema.get("properties")
    if properties is None:  # by names that are not declared
        return True
    named = [name for name in properties if name in thing]
    return [name for name in thing if name in properties] == named and all(
        in_order(thing[name], properties[name]) for name in named
    )


def check(lines):
    """The names of the schemas that occur; every line fits its own, which docs/generate_schemas.py made."""
    seen = set()
    for line in lines:
        thing = json.loads(line)
        schema = thing["schema"]
        error = next(VALIDATORS[schema].iter_errors(thing), None)
        assert error is None, (thing, error)
        assert schema in SEVERAL_ORDERS or in_order(thing, SCHEMAS[schema]), thing
        seen.add(schema)
    return seen


def kafkalog(*argv):
    stdout, stderr = io.BytesIO(), io.BytesIO()
    code = run([*argv, "--format", "json"], Environment(stdout=stdout, stderr=stderr))
    return code, stdout.getvalue().decode().splitlines(), stderr.getvalue().decode().splitlines()


def test_one_file_for_each_name_in_the_code():
    sources = [path.read_text() for path in (ROOT / "kafkalog_cli").rglob("*.py")]
    named = {name for source in sources for name in NAME.findall(source)}
    assert named == set(SCHEMAS)
    assert [file.name for file in FILES] == sorted(name.replace("/", "-") + ".json" for name in named)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_one(name):
    schema = SCHEMAS[name]
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["properties"]["schema"] == {"const": name}
    assert schema["properties"]["type"] == {"const": name.removeprefix("kafkalog.").partition("/")[0]}
    assert {"schema", "type"} <= set(schema["required"]) <= set(schema["properties"])


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.name)
def test_records_and_batches_of_every_generation(log):
    context = SEVEN if log.is_seven else CONTEXT
    kinds = {"kafkalog.record/1", "kafkalog.batch/1"}
    for what in ("keys,values,headers", "keys=len,values,headers=hash"):
        assert check(plain_lines(log.data, RecordJsonOptions(parse_redaction(what)), context=context)) == kinds
    assert check(plain_lines(log.data, context=context)) == kinds
    assert check(plain_lines(log.data, RecordJsonOptions(decode=topic_decode("__consumer_offsets")), context=context))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "case", ["txn", "internal", "remote", "upgraded", "v0", "v1", "v2-mixed", "format-0.7", "crash-flip-mid"]
)
def test_dump_log_on_logs_of_real_brokers(corpus, case):
    paths = [
        path for path in sorted((corpus / case).iterdir()) if path.is_dir() and not path.name.startswith("expected")
    ]
    code, out, err = kafkalog("dump-log", *map(str, paths))
    assert {"kafkalog.record/1", "kafkalog.batch/1", "kafkalog.summary/1"} <= check(out)
    summary = json.loads(out[-1])
    kinds = [json.loads(line)["type"] for line in out]
    assert (summary["exit_code"], kinds.count("summary")) == (code, 1)
    assert (kinds.count("batch"), kinds.count("record")) == (summary["batches"], summary["records"])
    assert check(err) <= {"kafkalog.error/1"}


def test_internal_topics_are_decoded_by_their_name(corpus):
    _, out, _ = kafkalog("dump-log", str(corpus / "internal" / "data"))
    records = [json.loads(line) for line in out if '"type":"record"' in line[:60]]
    decoded = {line["topic"] for line in records if line.get("decoded")}
    assert {"__consumer_offsets", "__cluster_metadata"} <= decoded
    assert all("decoded" not in line for line in records if not line["topic"].startswith("__"))


@pytest.mark.parametrize("case", ["txn", "upgraded", "v1", "internal", "crash-garbage-index", "clean-plausible-index"])
def test_dump_index_on_logs_of_real_brokers(corpus, case):
    code, out, err = kafkalog("dump-index", *(str(path) for path in (corpus / case).iterdir() if path.is_dir()))
    assert {"kafkalog.index-file/1", "kafkalog.index-entry/1", "kafkalog.summary/1"} <= check(out)
    assert json.loads(out[-1])["exit_code"] == code
    assert check(err) <= {"kafkalog.error/1"}


def test_look_ups(corpus):
    partition = str(corpus / "txn" / "data" / "tx-0")
    questions = [["--latest"], ["--earliest"], ["--max-timestamp"], ["1700000000000"], ["--latest", "--before", "3"]]
    for argv in (["lookup-offset", partition, "20"], *(["lookup-time", partition, *words] for words in questions)):
        code, out, _ = kafkalog(*argv)
        assert code == 0
        assert check(out) == {"kafkalog.lookup/1", "kafkalog.summary/1"}
        check(json.dumps(thing["record"]) for thing in map(json.loads, out) if thing.get("record"))


def test_reads(corpus):
    """The last line tells where the log begins and ends, and where the next reading goes on."""
    for name, end, stable in (("tx-0", 282, 189), ("tx2-0", 42, None)):
        code, out, err = kafkalog("read", str(corpus / "txn" / "data" / name), "--isolation", "read_committed")
        assert check(out) == {"kafkalog.record/1", "kafkalog.summary/1"}
        assert check(err) <= {"kafkalog.warning/1"}
        *records, summary = map(json.loads, out)
        assert {key: summary[key] for key in summary if key not in ("schema", "type")} == {
            "records": len(records), "next_offset": stable or end, "log_start_offset": 0, "log_end_offset": end,
            "last_stable_offset": stable, "exit_code": code,
        }  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.parametrize("options", [["--dry-run"], ["--dry-run", "--like-broker"], ["--salvage"]])
def test_recoveries(corpus, tmp_path, options):
    """Of every damaged log directory of the corpus."""
    seen = set()
    for case in sorted(corpus.glob("c*-*/before")):
        out_directory = [str(tmp_path / case.parent.name)] if options == ["--salvage"] else []
        code, out, err = kafkalog("recover", str(case), *options, *out_directory)
        seen |= check(out) | check(err)
        assert json.loads(out[-1])["exit_code"] == code
    kind = "kafkalog.salvage/1" if options == ["--salvage"] else "kafkalog.recovery/1"
    assert {kind, "kafkalog.summary/1"} <= seen <= {
        kind, "kafkalog.summary/1", "kafkalog.error/1", "kafkalog.warning/1", PROGRESS,
    }  # fmt: skip


@pytest.mark.parametrize("dry_run", [["--dry-run"], []])
def test_changes_of_logs(corpus, tmp_path, dry_run):
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
        code, out, err = kafkalog(*argv)
        seen |= check(out) | check(err)
        assert json.loads(out[-1])["exit_code"] == code
    kinds = {"roll", "retention", "truncation", "deleted-records", "appended", "summary", "warning"}
    assert seen - {PROGRESS} == {f"kafkalog.{kind}/1" for kind in kinds}


@pytest.mark.parametrize(
    "argv", [["ls", "/no/such/place"], ["dump-index", "/no/such/place"], ["dump-log", "/no/such/place"]]
)
def test_errors_are_objects_on_stderr(argv):
    code, out, err = kafkalog(*argv)
    assert code == 10
    assert check(err) == {"kafkalog.error/1"}
    check(out)


@pytest.mark.parametrize("name", [".kafkalog-clean-shutdown", ".kafkalog-import"])
def test_files_of_kafkalog_in_a_log_directory(tmp_path, name):
    (tmp_path / name).write_bytes(b"")
    code, out, _ = kafkalog("ls", str(tmp_path / name))
    assert (code, check(out)) == (0, {"kafkalog.file/1", "kafkalog.summary/1"})


def test_a_comparison_in_which_nothing_was_compared(corpus, tmp_path):
    source = corpus / "crash-asis" / "before" / "crash-asis-0"
    for name in ("a-0", "b-0"):
        shutil.copytree(source, tmp_path / name, ignore=shutil.ignore_patterns("partition.metadata"))
    _, out, _ = kafkalog("verify", "--level", "quick", str(tmp_path / "a-0"), "--against", str(tmp_path / "b-0"))
    check(out)
    results = [json.loads(line) for line in out if '"type":"verification"' in line]
    assert 10 in {result["exit_code"] for result in results}


def test_an_append_that_did_not_end(corpus, tmp_path):
    """Its run can be undone, and purged when it is old: its state is `growing`."""
    shutil.copytree(corpus / "retention" / "before", tmp_path / "data")
    partition = str(tmp_path / "data" / "ret-size-0")
    lines = ["--input", "lines", "--single-replica", "--now", "1795228795800"]
    code, _, err = kafkalog("append", partition, str(tmp_path / "data" / "meta.properties"), *lines)
    assert code == 0, err
    (manifest,) = (tmp_path / "data" / "ret-size-0" / ".kafkalog").glob("*/manifest*")
    changed = re.sub(r'"state": *"done"', '"state":"growing"', manifest.read_text())
    assert changed != manifest.read_text()
    manifest.write_text(changed)
    _, out, _ = kafkalog("purge", partition, "--dry-run", "--now", "1995228795800")
    assert check(out) == {"kafkalog.purge/1", "kafkalog.summary/1"}
    _, out, _ = kafkalog("undo", partition, manifest.parent.name, "--dry-run")
    assert '"state":"growing"' in out[0]
    check(out)


def test_the_schema_of_findings_has_every_kind():
    schema = json.loads((ROOT / "docs" / "schemas" / "kafkalog.finding-1.json").read_text())
    assert set(schema["properties"]["kind"]["enum"]) == {kind.value for kind in FindingKind}

"""`kafkalog verify --report`: each report satisfies its schema, and says what the JSON output says."""

import json
import os
import re
import shutil
import stat
import xml.etree.ElementTree as ET
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest
import xmlschema
from jsonschema import Draft4Validator

from tests.support.commands import kafkalog
from tests.support.product import lower_limit

SCHEMAS = Path(__file__).parents[1] / "fixtures" / "ci_schemas"
LEVELS = {"info": "note", "warning": "warning", "corruption": "error"}
ANNOTATIONS = {"info": "notice", "warning": "warning", "corruption": "error"}


def verify(*argv):
    return kafkalog("verify", *argv)


def results(*argv):
    """Findings and targets of the JSON output."""
    lines = [json.loads(line) for line in verify(*argv, "--format", "json")[1].splitlines()]
    return ([line for line in lines if line["type"] == type_] for type_ in ("finding", "verification"))


@cache
def results_of(case):
    """The same of a directory that stays as it is, for each report of it."""
    return [*results(case)]


@pytest.fixture(scope="module")
def junit_schemas():
    return [xmlschema.XMLSchema10(SCHEMAS / f"junit-{name}.xsd") for name in ("ant", "jenkins")]


@pytest.fixture(scope="module")
def sarif_schema():
    schema = json.loads((SCHEMAS / "sarif-schema-2.1.0.json").read_text())
    Draft4Validator.check_schema(schema)
    return Draft4Validator(schema)


@pytest.fixture(scope="module")
def cases(corpus):
    return sorted([*corpus.glob("*/before"), *corpus.glob("*/data")])


@pytest.fixture
def odd(tmp_path):
    """A log directory whose names have whatever a report could trip over."""
    folder = tmp_path / "50%,a:b\n::error::x##[add-mask] <&\"'\x1b]é"
    partition = folder / "topic-0"
    partition.mkdir(parents=True)
    (partition / f"{0:020}.log").write_bytes(b"\0" * 100)
    Path(os.fsdecode(os.fsencode(partition) + b"/\xff.index")).write_bytes(b"")
    return folder


def valid_junit(text, schemas):
    for schema in schemas:
        schema.validate(text)
    return ET.fromstring(text.encode())


def test_junit_reports_satisfy_their_schema_and_have_each_finding(cases, junit_schemas):
    failed = 0
    for case in cases:
        code, text, _ = verify(case, "--report", "junit")
        (suite,) = valid_junit(text, junit_schemas)
        findings, targets = results_of(case)
        tests = suite.findall("testcase")
        assert [test.get("name") for test in tests] == [target["path"] for target in targets]
        assert [test.get("classname") for test in tests] == [f"kafkalog.verify.{t['target']}" for t in targets]
        for test, target in zip(tests, targets, strict=True):
            assert bool(len(test)) == bool(target["exit_code"])
            if len(test):
                failed += 1
                kinds = re.findall(r" \[([a-z-]+)\]$", test[0].text, re.MULTILINE)
                assert len(kinds) == target["corruptions"] + target["warnings"] + target["infos"]
                assert test[0].get("type") in kinds
                assert ("corruption: " in test[0].text) == bool(target["corruptions"])
                worst = next(one for one in findings if one["kind"] == test[0].get("type"))
                assert worst["severity"] == ("corruption" if target["corruptions"] else "warning")
        assert int(suite.get("tests")) == len(targets)
        assert int(suite.get("failures")) + int(suite.get("errors")) == sum(bool(t["exit_code"]) for t in targets)
        assert suite.find("properties/property[@name='exit_code']").get("value") == str(code)
    assert failed > 10


def test_sarif_reports_satisfy_their_schema_and_have_each_finding(cases, sarif_schema):
    seen = 0
    for case in cases:
        code, text, _ = verify(case, "--report", "sarif")
        document = json.loads(text)
        sarif_schema.validate(document)
        (sarif,) = document["runs"]
        findings, _ = results_of(case)
        rules = sarif["tool"]["driver"]["rules"]
        for result, found in zip(sarif["results"], findings, strict=True):
            seen += 1
            (location,) = result["locations"]
            place = location["physicalLocation"]
            assert unquote(place["artifactLocation"]["uri"]) == f"file://{found['path']}"
            assert place.get("region", {}).get("byteOffset") == found["position"]
            assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == found["kind"]
            assert (
                result["level"]
                == LEVELS[found["severity"]]
                == rules[result["ruleIndex"]]["defaultConfiguration"]["level"]
            )
            assert found["message"] in result["message"]["text"]
            assert result["properties"].get("topic") == found["topic"]
        assert len({result["partialFingerprints"]["kafkalogFinding/v1"] for result in sarif["results"]}) == len(
            findings
        )
        assert sarif["invocations"][0]["exitCode"] == code
    assert seen > 50


def annotations(text):
    """The workflow commands of a report, as GitHub's runner reads them."""
    for line in text.split("\n"):
        found = re.match(r"::(\w+) ([^:]*)::(.*)", line.strip())
        assert bool(found) == line.strip().startswith("::")
        assert "##[" not in line
        if found:
            name, properties, message = found.groups()
            pairs = dict(pair.split("=", 1) for pair in properties.split(","))
            for code, character in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
                pairs = {key: value.replace(code, character) for key, value in pairs.items()}
                message = message.replace(code, character)
            yield name, pairs, message


def test_annotations_have_each_finding(cases):
    seen = 0
    for case in cases:
        found = list(annotations(verify(case, "--report", "github")[1]))
        findings, _ = results_of(case)
        for (name, properties, message), one in zip(found, findings, strict=True):
            seen += 1
            assert name == ANNOTATIONS[one["severity"]]
            assert properties == {"file": one["path"], "title": f"kafkalog: {one['kind']}"}
            place, *more = message.split("\n")
            assert place == ("" if one["position"] is None else f"at byte {one['position']}: ") + one["message"]
            if one["severity"] != "info" and one["next_step"]:
                assert more[-1] == f"next: {one['next_step']}"
    assert seen > 50


def test_annotations_of_fine_partitions_are_one_line(corpus):
    sound, torn = corpus / "v2-mixed" / "data", corpus / "crash-torn" / "before"
    code, text, _ = verify(sound, torn, "--report", "github")
    *_, last = lines = text.splitlines()
    assert code == 3
    assert not any(line.startswith(f"kafkalog: {sound}") for line in lines)
    assert sum(line.startswith(f"kafkalog: {torn}/") for line in lines) == 1
    checked, fine, bad = map(
        int, re.fullmatch(r"kafkalog: (\d+) partitions and log directories: (\d+) OK, (\d+) not OK", last).groups()
    )
    assert (checked, bad) == (fine + bad, 2), "the partition, and the checkpoints of its log directory"


def test_reports_escape_control_characters_of_names(odd, junit_schemas, sarif_schema):
    (suite,) = valid_junit(verify(odd, "--report", "junit")[1], junit_schemas)
    assert int(suite.get("failures")) == 1
    document = json.loads(verify(odd, "--report", "sarif")[1])
    sarif_schema.validate(document)
    uris = {
        one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in document["runs"][0]["results"]
    }
    assert all(re.fullmatch(r"file:///[A-Za-z0-9._~/%-]+", uri) for uri in uris)
    assert any(unquote(uri, errors="surrogateescape") == f"file://{odd}/topic-0/{0:020}.log" for uri in uris)
    text = verify(odd, "--report", "github")[1]
    assert "\x1b" not in text
    found = list(annotations(text))
    assert found
    assert {name for name, *_ in found} <= {"error", "warning", "notice"}


def test_a_relative_path_stays_relative(odd, monkeypatch):
    """A service knows the files of its checkout by such paths."""
    monkeypatch.chdir(odd)
    (sarif,) = json.loads(verify("./topic-0", "--report", "sarif")[1])["runs"]
    uri = sarif["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri.startswith("topic-0/")


def test_verify_writes_reports_beside_its_text(corpus, tmp_path, junit_schemas, sarif_schema):
    case = corpus / "crash-torn" / "before"
    code, text, _ = verify(case)
    old = tmp_path / "old.sarif"
    old.write_text("before")
    old.chmod(0o600)
    assert verify(case, "--report", f"junit={tmp_path}/new.xml", "--report", f"sarif={old}") == (code, text, "")
    (suite,) = valid_junit((tmp_path / "new.xml").read_text(), junit_schemas)
    assert suite.get("failures") == "1"
    sarif_schema.validate(json.loads(old.read_text()))
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("new.xml", "old.sarif")]
    assert modes == [0o644, 0o600]
    assert verify(case, "--report", "github", "--report", f"junit={tmp_path}/new.xml")[1].startswith("::warning ")
    findings, _ = results(case, "--report", f"sarif={old}")
    assert len(list(findings)) == 2


def test_quiet_leaves_infos_out(corpus):
    case = corpus / "retention" / "after"
    assert json.loads(verify(case, "--report", "sarif")[1])["runs"][0]["results"]
    assert json.loads(verify(case, "--report", "sarif", "--quiet")[1])["runs"][0]["results"] == []


def test_a_missing_path_is_a_failure_of_its_report(corpus, tmp_path, junit_schemas, sarif_schema):
    for paths, code in (([corpus / "v2-none" / "data", "/no/such"], 5), (["/no/such"], 10)):
        files = [f"junit={tmp_path}/x.xml", f"sarif={tmp_path}/x.sarif"]
        done = verify(*paths, "--report", "github", "--report", files[0], "--report", files[1])
        assert done[0] == code
        assert [properties.get("title") for name, properties, _ in annotations(done[1]) if name == "error"] == [
            "kafkalog: PathNotFound"
        ]
        (suite,) = valid_junit((tmp_path / "x.xml").read_text(), junit_schemas)
        assert suite.get("errors") == "1"
        document = json.loads((tmp_path / "x.sarif").read_text())
        sarif_schema.validate(document)
        (invocation,) = document["runs"][0]["invocations"]
        assert (invocation["executionSuccessful"], invocation["exitCode"]) == (False, code)
        assert "/no/such" in invocation["toolExecutionNotifications"][0]["message"]["text"]


def test_reports_of_a_run_that_fails_as_a_whole_have_its_error(corpus, tmp_path, junit_schemas):
    code, *_ = verify(corpus / "v2-none" / "data", "--against", "/no/such", "--report", f"junit={tmp_path}/x.xml")
    assert code == 10
    (suite,) = valid_junit((tmp_path / "x.xml").read_text(), junit_schemas)
    assert [case.get("classname") for case in suite.findall("testcase[error]")] == ["kafkalog.verify.run"]


def test_many_findings_are_counted(corpus, monkeypatch, junit_schemas, sarif_schema):
    lower_limit(monkeypatch, "findings of a report in SARIF", 1)
    lower_limit(monkeypatch, "findings of a report in JUnit", 1)
    case = corpus / "crash-torn" / "before"
    document = json.loads(verify(case, "--report", "sarif")[1])
    sarif_schema.validate(document)
    (sarif,) = document["runs"]
    assert len(sarif["results"]) == 1
    assert sarif["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"].startswith("1 more findings")
    (suite,) = valid_junit(verify(case, "--report", "junit")[1], junit_schemas)
    assert suite.find("testcase/failure").text.endswith("(1 more finding not listed)")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["xml"], "--report xml: give one of junit, sarif, github, or junit=FILE"),
        (["junit="], "--report junit=: give one of"),
        (["junit", "sarif"], "--report sarif: another report goes to stdout"),
        (["junit=a", "sarif=./a"], "--report sarif=./a: another report goes to ./a"),
    ],
)
def test_report_refuses_unknown_and_contradicting_values(corpus, words, reason):
    code, out, err = verify(corpus / "v2-none" / "data", *(f"--report={word}" for word in words))
    assert (code, out) == (2, "")
    assert reason in err


def test_json_and_a_report_do_not_share_stdout(corpus):
    code, out, err = verify(corpus / "v2-none" / "data", "--report", "junit", "--format", "json")
    assert (code, out) == (2, "")
    assert "give a FILE" in json.loads(err)["message"]


def test_no_report_is_written_through_a_link(corpus, tmp_path):
    target = tmp_path / "target"
    target.write_text("kept")
    (tmp_path / "link").symlink_to(target)
    code, out, _ = verify(corpus / "v2-none" / "data", "--report", f"junit={tmp_path}/link")
    assert (code, out, target.read_text()) == (14, "", "kept")


def test_a_report_that_cannot_be_written(corpus, tmp_path):
    code, _, err = verify(corpus / "v2-none" / "data", "--report", f"junit={tmp_path}/none/x.xml")
    assert code == 1
    assert "the report cannot be written: No such file or directory" in err


def test_a_comparison_with_a_replica_is_a_case_of_the_junit_report(corpus, tmp_path, junit_schemas):
    case = corpus / "crash-asis" / "before" / "crash-asis-0"
    shutil.copytree(case, tmp_path / "crash-asis-0")
    (suite,) = valid_junit(verify(case, "--against", tmp_path, "--report", "junit", "--quiet")[1], junit_schemas)
    names = [test.get("classname") for test in suite.findall("testcase")]
    assert names == [*["kafkalog.verify.partition"] * 2, "kafkalog.verify.comparison"]
    other = corpus / "crash-flip-epoch" / "before" / "crash-flip-epoch-0"
    (suite,) = valid_junit(verify(case, "--against", other, "--report", "junit", "--quiet")[1], junit_schemas)
    assert "not-compared" in {failure.get("type") for failure in suite.findall("testcase/failure")}

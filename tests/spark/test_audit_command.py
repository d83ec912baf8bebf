"""`kafkalog audit` through Spark itself, one session for all: text, objects, exit codes; a task that is tried again."""

import json
import re

import pytest
from jsonschema import Draft202012Validator

from kafkalog_cli.errors import NoSpace
from kafkalog_cli.ops.audit.compare import History
from kafkalog_cli.ops.same_place import sight
from kafkalog_cli.spark import audit
from tests.spark.exporting import pq
from tests.spark.test_export_command import ROOT, kafkalog
from tests.spark.test_spark_rows import log_dir
from tests.support.logs import BASE_TIME_MS, R, batch_v2

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

CLUSTER = "bGFiLWNsdXN0ZXItMDAwMA"
SCHEMAS = ROOT / "docs" / "schemas"


@pytest.fixture(scope="module")
def schemas():
    found = {}
    for name in ("finding", "audit"):
        schema = json.loads((SCHEMAS / f"kafkalog.{name}-1.json").read_text())
        found[f"kafkalog.{name}/1"] = Draft202012Validator({**schema, "additionalProperties": False})
    return found


@pytest.mark.usefixtures("spark")
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("level", "options"), [("quick", ()), ("normal", ("--keys",)), ("deep", ("--keys", "--top", "3"))]
)
def test_objects_and_exit_codes_are_those_of_verify(corpus, schemas, level, options):
    paths = [corpus / case / "before" for case in ("crash-flip-mid", "crash-torn", "crash-del-index", "retention")]
    code, out, _ = kafkalog("audit", *paths, "--level", level, *options, "--format", "json")
    verified, told, _ = kafkalog("verify", *paths, "--level", level, "--format", "json")
    assert code == verified == 4
    lines, wanted = ([json.loads(line) for line in text.splitlines()] for text in (out, told))
    assert [one for one in lines if one["type"] == "finding"] == [one for one in wanted if one["type"] == "finding"]
    ours, theirs = (
        [one for one in found if one["type"] == kind] for found, kind in ((lines, "audit"), (wanted, "verification"))
    )
    for one, other in zip(ours, theirs, strict=True):
        same = ("path", "exit_code", "log_start_offset", "log_end_offset", "warnings", "not_looked_at")
        assert [one[name] for name in same] == [other[name] for name in same]
        assert sum(one["findings"].values()) == one["corruptions"] + one["warnings"] + one["infos"]
    for line in lines[:-1]:
        assert next(schemas[line["schema"]].iter_errors(line), None) is None, line
    assert any(one["statistics"] and one["statistics"]["keys"] for one in ours) == bool(options)
    summary = lines[-1]
    counted = {name: wanted[-1][name] for name in ("corruptions", "warnings", "infos", "exit_code", "failures")}
    assert counted.items() <= summary.items()
    assert summary["partitions"] == len([one for one in ours if one["statistics"]])


TABLE = """\
EXAMPLE: cluster bGFiLWNsdXN0ZXItMDAwMA, node 1
partition        bytes  records  segments  batches  from                      to                        codecs                     dirty  findings
levels-0          6750      200         1        5  2023-11-14T22:13:20.000Z  2023-11-14T22:13:59.000Z  gzip,lz4,zstd                  -  -
mixed-0           6003      125         1       21  2023-11-14T22:13:20.000Z  2023-11-14T22:21:44.000Z  none,gzip,snappy,lz4,zstd      -  -
mixed-1           8663      125         1       26  2023-11-14T22:14:20.000Z  2023-11-14T22:22:44.000Z  none,gzip,snappy,lz4,zstd      -  -
(its own files)      -        -         -        -  -                         -                         -                              -  -

3 partitions in 1 log directory; 21 KiB; 450 records; TIME; not checked: decompression and records, topic ids and replicas (no metadata log)
"""


@pytest.mark.usefixtures("spark")
def test_the_table():
    example = ROOT / "docs" / "example"
    code, out, err = kafkalog("audit", example)
    out = re.sub(r"records; [0-9.:]+ (ms|s|min); ", "records; TIME; ", out)
    assert (code, out.replace(str(example), "EXAMPLE"), err) == (0, TABLE, "")
    assert kafkalog("audit", example, "--quiet") == (0, "", "")


@pytest.mark.usefixtures("spark")
def test_findings_have_their_next_step(tmp_path):
    whole = batch_v2([R(0, BASE_TIME_MS, b"a", b"1"), R(1, BASE_TIME_MS + 60_000, b"b", b"22")])
    log_dir(tmp_path, whole + whole[:30])
    code, out, err = kafkalog("audit", tmp_path, "--level", "quick", "--quiet")
    assert (code, err) == (3, "")
    lines = out.replace(str(tmp_path), "DIR").splitlines()
    assert lines[0] == "DIR"
    assert lines[2].split() == ["orders-0", "112", "2", "1", "1", "2023-11-14T22:13:20.000Z", "2023-11-14T22:14:20.000Z",
                                "none", "-", "3", "warnings"]  # fmt: skip
    assert not any("key" in line for line in lines)
    torn = lines.index(
        f"DIR/orders-0/{0:020d}.log: at byte 82: warning: the last 30 bytes are an incomplete batch [torn-tail]"
    )
    assert lines[torn + 2] == "  next: `kafkalog recover DIR/orders-0` cuts the tail off and keeps the bytes"
    assert lines[-1].startswith("1 partition in 1 log directory; 112 bytes; 2 records; 3 warnings; ")
    assert re.search(r"; [0-9.:]+ (ms|s|min); not checked: ", lines[-1])


def test_what_is_wrong_is_said_without_spark(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "pyspark.sql", None)
    assert kafkalog("audit")[::2] == (2, "kafkalog: audit needs a LOG_DIR; see kafkalog audit --help\n")
    assert kafkalog("audit", tmp_path, "--level", "quick", "--keys")[0] == 2
    code, out, err = kafkalog("audit", tmp_path / "nowhere")
    assert (code, "no such file" in err) == (10, True)


@pytest.mark.usefixtures("spark")
def test_keys_for_people(tmp_path):
    log_dir(
        tmp_path, batch_v2([R(0, BASE_TIME_MS, b"a\x1b", b"1"), R(1, BASE_TIME_MS, b"", None), R(2, -1, None, b"x")])
    )
    log_dir(tmp_path, batch_v2([R(0, BASE_TIME_MS, b"\xff" * 70, b"1" * 9)] * 2), "long")
    _, out, _ = kafkalog("audit", tmp_path, "--keys", "--top", "2")
    lines = out.replace(str(tmp_path), "DIR").splitlines()
    at = lines.index("DIR/long-0: 1 key")
    long = "\\xff" * 64
    assert lines[at : at + 5] == [
        "DIR/long-0: 1 key",
        f"  {long}... (70 bytes): bytes 158, records 2",
        "DIR/orders-0: 2 keys, 1 tombstone, 1 record without a key",
        "  a\\x1b: bytes 3, records 1",
        "  (empty): bytes 0, records 1",
    ]


def two_disks(folder):
    for disk in ("a", "b"):
        log_dir(folder / disk, batch_v2([R(0, BASE_TIME_MS, b"k", b"v")]), f"on-{disk}")
        (folder / disk / "meta.properties").write_text(f"version=1\ncluster.id={CLUSTER}\nnode.id=1\n")
    return folder / "a", folder / "b"


@pytest.mark.usefixtures("spark")
def test_two_days_and_a_disk_that_is_not_mounted(tmp_path, schemas):
    disks, history = two_disks(tmp_path), tmp_path / "history"
    audit = ("audit", *disks, "--level", "quick", "--history", history)
    code, _, err = kafkalog(*audit, "--now", "1795300000000", "--compare", "previous")
    assert (code, err) == (3, "kafkalog: the history has no run to compare these directories with\n")
    log_dir(disks[0], batch_v2([R(at, BASE_TIME_MS, b"k", b"v") for at in range(3)]), "on-a")
    code, out, err = kafkalog(*audit, "--now", "1795386400000", "--compare", "previous", "--format", "json")
    changes = [one for one in map(json.loads, out.splitlines()) if one["type"] == "audit-change"]
    schema = json.loads((SCHEMAS / "kafkalog.audit-change-1.json").read_text())
    for one in changes:
        assert next(Draft202012Validator({**schema, "additionalProperties": False}).iter_errors(one), None) is None
    told = {(one["topic"] or one["path"].rpartition("/")[2]): one for one in changes}
    assert {name: one["kind"] for name, one in told.items()} == {
        "on-a": "changed", "a": "same", "on-b": "same", "b": "same",
    }  # fmt: skip
    assert (told["on-a"]["records"], told["on-a"]["offsets_per_s"]) == (2, 2 / 86_400)
    kept = disks[1].rename(tmp_path / "kept")
    disks[1].mkdir()
    for _ in range(2):  # also when the last run has not looked at it
        code, out, err = kafkalog(*audit, "--now", "1795472800000", "--compare", "-2d")
        assert f"{disks[1]}: refused: it is empty; at the audit " in err
        assert "is its disk mounted? --replaced accepts the present contents\n" in err
        assert code == 5
        assert "changed" in out
        assert "on-b" not in out
    disks[1].rmdir()
    kept.rename(disks[1])
    assert kafkalog(*audit, "--now", "1795472800001")[0] == 3
    (disks[1] / "meta.properties").write_text(f"version=1\ncluster.id={CLUSTER}\nnode.id=2\n")
    assert kafkalog(*audit, "--now", "1795472800002")[0] == 5
    assert kafkalog(*audit, "--now", "1795472800003", "--replaced")[0] == 3
    assert kafkalog(*audit, "--now", "1795472800004")[0] == 3
    assert len(list(history.glob("*.parquet"))) == 8


@pytest.mark.usefixtures("spark")
def test_files_lie_outside_of_log_directories(tmp_path):
    disk, _ = two_disks(tmp_path)
    for option in (
        ("--history", disk / "history"),
        ("--output", disk / "x.parquet"),
        ("--history", disk / "on-a-0" / "h"),
    ):
        code, out, err = kafkalog("audit", disk, *option)
        assert (code, out, "is a broker's" in err) == (14, "", True)
    assert kafkalog("audit", disk, "--compare", "previous")[0] == 2
    assert kafkalog("audit", disk, "--replaced")[0] == 2
    target = tmp_path / "rows.parquet"
    assert kafkalog("audit", disk, "--level", "quick", "--output", target)[0] == 3
    assert pq.read_table(target).column("topic").to_pylist() == ["on-a", None]
    assert kafkalog("audit", disk, "--output", target)[0] == 2


def test_a_dataframe(spark, corpus):
    path = str(corpus / "crash-torn" / "before")
    frame = audit(spark, [path], level="deep", top=2)
    found = {row.path: row for row in frame.collect()}
    (bad,) = (row for row in found.values() if "torn-tail" in {one.kind for one in row.findings})
    assert (bad.exit_code, bad.target, bad.warnings >= 1) == (3, "partition", True)
    by_codec = frame.selectExpr("explode(codecs) as c").groupBy("c.codec").sum("c.bytes").collect()
    assert sum(row[1] for row in by_codec) + 200 > sum(row.bytes or 0 for row in found.values()) > 0
    assert {row.level for row in found.values()} == {"deep"}
    assert bad.keys is not None


@pytest.mark.usefixtures("spark")
def test_workers_that_see_another_disk(tmp_path, schemas, monkeypatch):
    """As on another machine, on which something else is mounted in one of two places."""
    disks = two_disks(tmp_path)

    def other(place, host, _):
        seen = sight(place, host)
        return seen._replace(host="elsewhere", meta=None) if place.log_dir == str(disks[0]) else seen

    monkeypatch.setattr("kafkalog_cli.ops.same_place.sight", other)
    code, out, errors = kafkalog("audit", *disks, "--level", "quick", "--format", "json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert (code, lines[-1]["failures"], lines[-1]["partitions"]) == (5, 1, 1)
    for line in lines[:-1]:
        assert next(schemas[line["schema"]].iter_errors(line), None) is None, line
    failed = {one["path"]: one["exit_code"] for one in lines if one.get("error")}
    assert failed == {f"{disks[0]}/on-a-0": 14}
    (told,) = (one for one in map(json.loads, errors.splitlines()) if one["type"] == "error")
    assert (told["kind"], told["exit_code"]) == ("Refused", 14)
    assert "sees another directory there than elsewhere, where the run was planned: meta.properties" in told["message"]
    code, _, errors = kafkalog("audit", disks[0] / "on-a-0", "--level", "quick")
    assert (code, errors.count("sees another directory there")) == (14, 1)


@pytest.mark.usefixtures("spark")
def test_results_are_told_though_they_cannot_be_kept(tmp_path, monkeypatch):
    disk, _ = two_disks(tmp_path)

    def full(*_):
        raise NoSpace(path="history", reason="a test")

    monkeypatch.setattr(History, "append", full)
    code, out, err = kafkalog("audit", disk, "--level", "quick", "--history", tmp_path / "history", "--format", "json")
    last = json.loads(out.splitlines()[-1])
    assert (code, last["type"], last["exit_code"], last["partitions"]) == (13, "summary", 13, 1)
    (told,) = (one for one in map(json.loads, err.splitlines()) if one["type"] == "error")
    assert told["kind"] == "NoSpace"

"""`kafkalog audit` through Spark itself, one session for all: text, objects, exit codes; a task that is tried again."""

import json

import pytest
from jsonschema import Draft202012Validator
from logs import BASE_TIME_MS, R, batch_v2
from test_export_command import ROOT, kafkalog
from test_spark_rows import log_dir

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

SCHEMAS = ROOT / "docs" / "schemas"


@pytest.fixture(scope="module")
def schemas():
    found = {}
    for name in ("finding", "audit"):
        schema = json.loads((SCHEMAS / f"kafkalog.{name}-1.json").read_text())
        found[f"kafkalog.{name}/1"] = Draft202012Validator({**schema, "additionalProperties": False})
    return found


@pytest.mark.usefixtures("spark")
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

3 partitions in 1 log directory; 21 KiB; 450 records; not looked at: decompression and records, topic ids and replicas (no metadata log)
"""


@pytest.mark.usefixtures("spark")
def test_the_table():
    example = ROOT / "docs" / "example"
    code, out, err = kafkalog("audit", example)
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
    torn = lines.index(f"DIR/orders-0/{0:020d}.log: at byte 82: warning: 30 bytes that are no whole batch [torn-tail]")
    assert lines[torn + 2] == "  next: `kafkalog recover` cuts the tail off and keeps what it cuts"
    assert lines[-1].startswith("1 partition in 1 log directory; 112 bytes; 2 records; 3 warnings; not looked at: ")


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

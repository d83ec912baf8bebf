"""The same records in every form that append and import take become the same bytes of a log."""

import base64
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kafkalog_cli as kl
from tests.support.commands import kafkalog
from tests.support.logs import BASE_TIME_MS
from tests.support.strategies import contents, headers

pa = pytest.importorskip("pyarrow")

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
HEADER = pa.struct([pa.field("key", pa.binary()), pa.field("value", pa.binary())])
SCHEMA = pa.schema(
    {
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": pa.list_(HEADER),
        "timestamp": pa.int64(),
        "offset": pa.int64(),
    }
)
RECORDS = st.lists(
    st.tuples(contents, contents, headers, st.none() | st.integers(BASE_TIME_MS, BASE_TIME_MS + 9)),
    min_size=1,
    max_size=40,
)


def text_of(data):
    return None if data is None else {"encoding": "base64", "data": base64.b64encode(data).decode()}


def line_of(offset, record):
    key, value, pairs, timestamp = record
    fields = {"key": text_of(key), "value": text_of(value), "timestamp_ms": timestamp, "offset": offset, "partition": 0}
    fields["headers"] = [{"key": text_of(name), "value": text_of(content)} for name, content in pairs]
    return json.dumps({**fields, "topic": "t"}).encode() + b"\n"


def table_of(records):
    rows = [
        {"key": key, "value": value, "timestamp": timestamp, "offset": offset,
         "headers": [{"key": name, "value": content} for name, content in pairs]}
        for offset, (key, value, pairs, timestamp) in enumerate(records)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def run(*argv):
    code, _, err = kafkalog(*argv, "--single-replica")
    assert code == 0, err


@pytest.mark.filterwarnings("ignore::UserWarning")
@settings(suppress_health_check=list(HealthCheck), deadline=None)
@given(
    RECORDS, st.sampled_from([1, 150, 400, 16_384]), st.sampled_from(["none", "gzip", "lz4"]), st.integers(1, 40),
    st.data(),
)  # fmt: skip
def test_a_log_does_not_depend_on_the_form_of_its_records(tmp_path_factory, records, batch_bytes, codec, cut, data):
    """NDJSON for the kernel and for Python, with offsets that are kept or not; Arrow in parts; files of both for import."""
    root = tmp_path_factory.mktemp("forms")
    style = ("--batch-bytes", str(batch_bytes), "--codec", codec)
    lines = [line_of(*one) for one in enumerate(records)]
    (root / "plain.ndjson").write_bytes(b"".join(lines))
    for at in data.draw(st.sets(st.integers(0, len(lines) - 1))):
        lines[at] = lines[at].replace(b"{", b'{"decoded":[1],', 1)  # left to Python
    (root / "mixed.ndjson").write_bytes(b"".join(lines))
    table = table_of(records)
    with pa.ipc.new_file(root / "in.arrow", table.schema) as file:
        file.write_table(table, max_chunksize=cut)

    for name, more in (("plain", ()), ("mixed", ()), ("plain", ("--keep-offsets",))):
        (root / f"{name}{len(more)}").mkdir()
        run(
            "append",
            root / f"{name}{len(more)}" / "t-0",
            root / f"{name}.ndjson",
            "--topic-id",
            TOPIC_ID,
            *style,
            *more,
        )
    (root / "library").mkdir()
    log = kl.new_partition(root / "library" / "t-0", topic_id=TOPIC_ID)
    log.append(table.to_batches(max_chunksize=cut), batch_bytes=batch_bytes, codec=codec, single_replica=True)
    for name, more in (("mixed.ndjson", ()), ("in.arrow", ("--partitions", "1"))):
        (root / f"import-{name}").mkdir()
        words = ("--log-dir", root / f"import-{name}", "--topic", "t", "--topic-id", TOPIC_ID)
        run("import", root / name, *words, *style, *more)

    logs = {path.parent.parent.name: path.read_bytes() for path in root.glob("*/t-0/*.log")}
    assert len(logs) == 6
    assert len(set(logs.values())) == 1, sorted(logs)

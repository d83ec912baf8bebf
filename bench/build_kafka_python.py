"""Builds batches of 16 KiB of the records in a file of NDJSON with kafka-python's record builder, and writes them."""

import base64
import json
import sys
from pathlib import Path
from typing import Any

from kafka.record.default_records import DefaultRecordBatchBuilder  # type: ignore[import-untyped]

BATCH_BYTES = 16_384


def new_builder() -> Any:
    return DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, BATCH_BYTES)


def data(found: Any) -> bytes | None:
    if found is None:
        return None
    text: str = found["data"]
    return text.encode() if found["encoding"] == "utf-8" else base64.b64decode(text)


def build(source: str, target: str) -> int:
    """Write the batches; how many records there are."""
    count = at = 0
    builder = new_builder()
    with Path(source).open("rb") as lines, Path(target).open("wb") as out:
        for line in lines:
            record = json.loads(line)
            if record["type"] != "record":
                continue
            headers = [(str(data(header["key"])), data(header["value"])) for header in record["headers"]]
            fields = (record["timestamp_ms"], data(record["key"]), data(record["value"]), headers)
            if builder.append(at, *fields) is None:
                out.write(builder.build())
                builder, at = new_builder(), 0
                builder.append(at, *fields)
            at += 1
            count += 1
        out.write(builder.build())
    return count


print(build(sys.argv[1], sys.argv[2]))

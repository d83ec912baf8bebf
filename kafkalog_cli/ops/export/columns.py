"""The columns of exported files: everything in a record, so that an import can restore it."""

from __future__ import annotations

from typing import Any

from kafkalog_cli.format.compression import codec_name
from kafkalog_cli.log.reading.record_arrow import record_schema
from kafkalog_cli.ops.values.decoded_columns import DECODED, DecodedColumns, Decoding

VERSION = "1"
"""The version of the columns, kept in the metadata of each file."""

CORE = (
    "key", "value", "offset", "timestamp", "timestamp_type", "headers", "batch_base_offset", "magic", "codec",
    "producer_id", "producer_epoch", "sequence", "leader_epoch", "transactional", "control",
)  # fmt: skip
"""The columns of the core that exported columns are made from, in their order."""

_NAMES = {"timestamp_type": "timestampType"}
"""Names that differ from the core: those of Spark's Kafka source, if it has such a column."""
OF_FILES = (*_NAMES.values(), "partition", "topic", "day", *DECODED.values())
"""Columns of exported files that the core does not have; topic and day are in the names of directories."""
_CODECS = 8


def core_schema() -> Any:
    """Return the pyarrow.Schema of the batches that `exported` takes."""
    return record_schema(CORE)


def export_schema(decoding: Decoding | None = None) -> Any:
    """Return the pyarrow.Schema of exported records; the topic is in the directory's name and the file's metadata.

    `decoding` adds columns of decoded contents at the end. A null timestamp means that the record has none (-1).
    Header keys are bytes, since Kafka does not require text.
    """
    import pyarrow as pa

    fields = []
    for field in core_schema():
        kind = pa.string() if field.name == "codec" else field.type
        fields.append(pa.field(_NAMES.get(field.name, field.name), kind, field.nullable))
    fields.insert(2, pa.field("partition", pa.int32(), nullable=False))
    fields += [pa.field(DECODED[name], pa.string()) for name in (decoding.columns if decoding else ())]
    return pa.schema(fields)


def exported(batch: Any, partition: int, schema: Any, decoded: DecodedColumns | None = None) -> Any:
    """Return a RecordBatch of `core_schema` as one of `export_schema`, whose decoded contents come from `decoded`."""
    import pyarrow as pa

    arrays, contents = [], {column: name for name, column in DECODED.items()}
    for name in schema.names:
        if name in contents:
            assert decoded is not None
            arrays.append(decoded.texts(batch, contents[name]))
            continue
        if name == "partition":
            arrays.append(pa.repeat(pa.scalar(partition, pa.int32()), batch.num_rows))
        elif name == "codec":
            arrays.append(_codec_names().take(batch.column("codec")))
        else:
            arrays.append(batch.column("timestamp_type" if name == "timestampType" else name))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _codec_names() -> Any:
    import pyarrow as pa

    return pa.array([codec_name(number) for number in range(_CODECS)], pa.string())

"""The formats of every file in a Kafka log directory: decode bytes to values, encode values to bytes.

The package is pure: it opens no files and reads no clock. It has one module per file format: `batch` and `records`
(segments), `index`, `txnindex`, `producer_snapshot`, `checkpoint`, `partition_metadata`, `meta_properties`, and
`json_files` (quorum-state and `.kafka_cleanshutdown`).

`scan` makes columns of batches (`columns`), `decode` reads their records, and `batch_encoder` writes them; `legacy` has
the formats before record batches. `values` decodes what serialisers put into keys and values, and `protocol` has the
requests that `serve` answers.

Fixed binary structures are tables (`layout`), from which docs/generate_format.py makes a page of the site.
`compression` contains the codecs, `native` the loops in C, and `internal_topics` the record schemas of
Kafka's own topics.

Damaged bytes are not errors: a decoder returns or yields a `Fault` that says what is wrong and where. `Limits` bounds
the memory that damaged or hostile bytes can make a reader allocate.
"""

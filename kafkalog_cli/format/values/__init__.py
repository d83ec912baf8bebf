"""Values and keys that a Schema Registry's serialisers wrote: their framing, and their contents as JSON.

`ValueDecoder` is the one class that commands use. Nothing here reads files: schemas come in a `SchemaSet`, which
`ops/values` fills. Contents that cannot be decoded give a value too: `Undecoded`, with the reason.
"""

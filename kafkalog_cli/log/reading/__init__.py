"""Read segments: from bytes to batch columns, and from batch columns to record columns.

`segment_reader` is the way to read a segment file. A `SegmentReader` has a range of bytes and a `DamagePolicy`, and its
methods go as deep as the caller needs: headers, batches, records. The other modules are its parts.

`header` reads single batch headers. `scan` reads a file in chunks and returns the columns of its batches (`Scan`,
`Chunk`). `read` decompresses and decodes the records of a chunk (`RecordReader`). `read_ahead` does all this in
threads. `record_arrow` turns records into Arrow.

Damage is a `Fault`. After damage, `resync` finds the next good batch. `SegmentReader.held_batches` holds doubtful
batches back. `unused_end` knows the zeros that a running broker preallocates. `allowance` bounds the memory of readers
that run ahead.

Buffers are reused: a chunk and its blocks are valid until the next one is requested.
"""

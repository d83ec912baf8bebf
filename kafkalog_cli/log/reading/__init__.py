"""Read segments: from bytes to batch columns, and from batch columns to record columns.

`scan` reads a file in chunks and returns the columns of its batches (`Scan`, `Chunk`). `read` decompresses and decodes
the records of a chunk (`RecordReader`): `read_compiled` does so with compiled kernels, and `read_large` for batches
with more records than fit in a block. `read_ahead` does all this in threads. `record_arrow` turns records into Arrow.

Damage is a `Fault`. `scan_on` continues after damage with the next good batch, which `resync` finds; `entry_candidates`
gives it the positions to try. `header` reads single batch headers, `large_batch` checks the CRC of a batch over the
limits.

Buffers are reused: a chunk and its blocks are valid until the next one is requested.
"""

"""Read segments: from bytes to batches (`scan`), and from batches to records (`records`).

A `Scan` has a range of bytes and a `DamagePolicy`, and gives chunks: batches with their bytes, and the damage
before them. `records` gives each chunk with blocks of records, and reads large logs ahead in threads. `Headers` reads
headers alone, without CRCs. `record_arrow` turns records into Arrow.

Damage is a `Fault`. After damage, `resync` finds the next good batch. `readable` reads around bad sectors, `unused_end`
knows the zeros that a running broker preallocates, and `budget` bounds the memory of readers that work side by side.

Buffers are reused: a chunk and its blocks are valid until the next one is requested.
"""

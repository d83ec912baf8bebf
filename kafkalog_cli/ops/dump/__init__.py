"""Read segments and check indexes for `kafkalog dump-log`.

`segment.py` reads a segment and collects what the final reports need. `sidecar.py` checks index entries against the
segment as Kafka's DumpLogSegments does.
"""

"""Read segments and check indexes for `kafkalog dump-log`.

`segment.py` reads a segment, collects what the final reports need, and checks index entries against the segment as
Kafka's DumpLogSegments does.
"""

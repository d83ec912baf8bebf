"""Look at partitions on a time axis (`kafkalog inspect`).

`log_walk.py` follows the batch headers of a log: times, bytes over time, holes. `inspecting.py` adds what `ls`,
`retain` and `compact` know of the same partition. No file is changed, and no record is decoded.
"""

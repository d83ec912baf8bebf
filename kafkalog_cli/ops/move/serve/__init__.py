"""`serve`: a read-only Kafka broker over the log directories of a broker that does not run.

`server` accepts connections, `connection` reads requests and sends responses. `dialects` has the requests that a
listener understands, and the table of the functions that answer them: `answer_*`, and those of `committed` and
`transactions`. `catalog` is the view of the logs: its files stay open from the start (`open_files`). A
`served_partition` is a partition as its leader would serve it, from its copies (`served_copy`). `segment_map` checks
each segment once before its bytes are sent. `groups`, `consumer_groups` and `committed` are the group coordinator.
`as_of` ends the logs at a time.
"""

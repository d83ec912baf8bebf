"""`serve`: a read-only Kafka broker over the log directories of a broker that does not run.

`server` accepts connections, `connection` reads requests and sends responses. `dialects` has the requests that a
listener understands, and the table of the functions that answer them: `answer_*`, and those of `committed` and
`transactions`. `catalog` is the view of the logs: its files stay open from the start. `segment_map` checks each segment
once before its bytes are sent. `groups`, `consumer_groups` and `committed` are the group coordinator.
"""

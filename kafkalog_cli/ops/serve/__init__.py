"""`serve`: a read-only Kafka broker over the log directories of a broker that does not run.

`server` accepts connections, `connection` reads requests and sends responses. `dialects` has the requests that a
listener understands, `api_table` the function that answers each API, and `answer_seven` answers Kafka 0.7. `catalog` is
the view of the logs: its files stay open from the start. `segment_map` checks each segment once before its bytes are
sent. `groups`, `consumer_groups` and `committed` are the group coordinator. `commit_copy` appends commits to a copy of
its topic.
"""

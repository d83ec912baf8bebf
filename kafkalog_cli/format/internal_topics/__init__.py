"""Decode and encode the records of Kafka's internal topics and of control batches by their message schemas.

`schemas.json` contains Kafka's message schemas; `schema` makes tables of it per release. `decode` translates one
message between bytes and a dict (`Message`), and reads the protocol's basic types. `records` knows how each internal
topic frames its keys and values. `java_json` prints values as Kafka's tools do.

The five topics are __consumer_offsets, __transaction_state, __share_group_state (coordinator records),
__cluster_metadata and __remote_log_metadata (API messages).
"""

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
INTERNAL_COMPACTED = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE})

"""Contents of log directories other than records, as rows of tables.

Each module makes the rows of one kind: `batches.py` of batches, `segments.py` of segments, and `cluster.py` of the
replayed metadata log. `committed_offsets.py`, `groups.py` and `transactions.py` replay a coordinator's topic, which
`coordinator_log.py` reads.
"""

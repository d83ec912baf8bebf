"""Contents of log directories other than records, as rows of tables.

`batches.py` has the rows of batches and of segments, `cluster.py` those of the replayed metadata log.
`coordinator_log.py` replays a coordinator's topic: committed offsets and transactional ids. `groups.py` has its groups.
"""

"""Sends the records of log directories to a cluster.

`cluster.py` says what replay needs of a cluster, and `kafka_cluster.py` does that with librdkafka. `plan.py` chooses
the copies and the topics. `state.py` is the file by which a run continues an earlier run. `sending.py` sends,
follows the acknowledgements, and moves the committed offsets of groups.
"""

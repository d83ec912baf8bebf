"""Sends the records of log directories to a cluster.

`kafka_cluster.py` is the cluster, through librdkafka. `plan.py` chooses
the copies and the topics. `state.py` is the file by which a run continues an earlier run. `sending.py` sends,
follows the acknowledgements, and moves the committed offsets of groups.
"""

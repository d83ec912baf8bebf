"""Verification: find what is wrong with logs and log directories, how bad it is, and what to do about it.

`verify.py` runs the check of a partition or log directory, by tasks (`task.py`). `partition.py` combines the checks of
one partition (`../checks`) with those of its names (`files.py`), and `advice.py` their next steps. `seven.py` checks
the messages of Kafka 0.7, `root.py` the files of a log directory. `replica_pairs.py` verifies two sides, whose
replicas `against.py` and `replica_side.py` compare; `replicas_across_hosts.py` compares those of several hosts, by
`replica_facts.py`. `with_rechecks.py` repeats a check beside a running broker. `places.py`, `identity.py`, `copies.py`,
`metadata_log.py` and `permissions.py` check whose files they are, and what the node does with them at its start.
"""

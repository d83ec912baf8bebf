"""Verification: find what is wrong with logs and log directories, how bad it is, and what to do about it.

`verify.py` runs the check of a partition or log directory, by tasks (`task.py`). `partition.py` combines the checks of
one partition, and `advice.py` their next steps. `log.py` and `records.py` check batches and records, `headers.py` batch
headers alone, and `seven.py` the messages of Kafka 0.7. They share what they find in a chain (`chain_findings.py`), in
damaged bytes (`damaged_bytes.py`) and in timestamps (`odd_times.py`). `aborted.py` follows transactions. `files.py`,
`gaps.py` and `root.py` check the files beside the log. `replica_pairs.py` pairs the partitions of two sides, and
`against.py` and `replica_side.py` compare two replicas. `settled.py` repeats a check beside a running broker.
Findings, and the checks that `dump-index` uses too, are in `ops/checks`.
"""

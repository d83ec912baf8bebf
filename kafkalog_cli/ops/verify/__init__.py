"""Verification: find what is wrong with logs and log directories, how bad it is, and what to do about it.

`verify.py` runs the check of a partition or log directory and `partition.py` combines the checks of one partition.
`log.py` and `records.py` check batches and records, and `headers.py` checks batch headers alone. `files.py`,
`gaps.py` and `root.py` check the files beside the log. `against.py` and the `replica_*` modules compare two
replicas. Findings, and the checks that `dump-index` uses too, are in `ops/checks`.
"""

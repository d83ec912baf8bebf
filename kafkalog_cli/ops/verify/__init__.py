"""Verification: find what is wrong with logs and log directories, how bad it is, and what to do about it.

`verify.py` runs the check of a partition or log directory and `partition.py` combines the checks of one partition.
`log.py` and `records.py` check batches and records, and `headers.py` checks batch headers alone. `files.py`,
`from_reports.py`, `log_start.py` and `root*.py` check the files beside the log. `against.py` and the `replica_*`
modules compare two replicas.

A finding (`diagnose.py`) is one problem: its kind, its place, what a broker does about it, and the next step. The kinds
and severities are in `finding_kinds.py`. The tables in `diagnoses_of_*.py` hold the texts per kind.
"""

"""Audit partitions: verify them, and collect statistics of their contents in the same pass.

`audit.py` audits a partition with the counters of `counting.py`. `compare.py` saves the results of a run, and finds the
changes since an earlier run.
"""

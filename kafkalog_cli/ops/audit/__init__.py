"""Audit partitions: verify them, and collect statistics of their contents in the same pass.

`audit.py` audits a partition with `statistics.py` and `keys.py`. `columns.py` makes a table of the results, which
`history.py` saves per run. `compare.py` finds the changes since an earlier run.
"""

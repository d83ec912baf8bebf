"""Queries in Spark's SQL over log directories: each topic and each table of `ops/scans/catalog.py` is a view.

- `query.py`: runs one query; `sql` gives its rows as a DataFrame of the caller's session.
- `views.py`: the views: first empty stand-ins, then reads of what the query uses.
- `usage.py`: the columns, partitions, offsets and times that an optimised plan uses.
- `groups.py`: plans whose records are grouped in tasks.
- `confinement.py`: refuses queries that read files or call code.
"""

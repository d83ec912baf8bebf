"""Export records as Parquet, Arrow or NDJSON files.

`request.py` is what to export, `columns.py` the schema of the files. `writers.py` writes one file, and `files.py` the
files of a partition. `progress.py` keeps how far an incremental export has come.
"""

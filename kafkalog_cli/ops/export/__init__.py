"""Export records as Parquet, Arrow or NDJSON files.

`request.py` is what to export, and how far earlier exports have come. `files.py` writes the files of a partition, and
has their schema.
"""

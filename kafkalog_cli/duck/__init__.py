"""DuckDB: the views of `ops/scans/catalog.py` in its dialect of SQL, without Java."""

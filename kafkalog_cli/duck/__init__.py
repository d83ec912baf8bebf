"""DuckDB: `query` answers SQL over the views of `ops/scans/catalog.py`, without Java."""

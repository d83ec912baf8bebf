"""export: records as Parquet, Arrow or NDJSON files."""

"""What people and programs read: text of the mirrored tool, NDJSON, tables, progress."""

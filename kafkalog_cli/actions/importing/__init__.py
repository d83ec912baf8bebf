"""import: records of files as new partitions of a log directory."""

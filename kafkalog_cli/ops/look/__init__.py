"""What is in log directories: lists, records, sizes, the offset or time of a record, and dumps of files."""

"""Partitions as tables of Arrow, in tasks, for Spark, DuckDB and exports: no file here knows any of them.

- `options.py`, `offset_limits.py`: the options of a read; the first four of Spark's Kafka source are among them.
- `schema.py`, `structs/`: the columns of records; `tables.py`: the tables beside the topics.
- `offsets.py`, `splits.py`: the partitions and offsets of a read, and the pieces of logs that a task reads.
- `rows.py`: the rows of a task.

A piece is a range of offsets of one partition that one task reads.
"""

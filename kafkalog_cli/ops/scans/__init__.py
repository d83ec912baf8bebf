"""Partitions as tables of Arrow, in tasks, for Spark, DuckDB and exports: no file here imports any of them.

- `options.py`, `offset_limits.py`: the options of a read; the first four of Spark's Kafka source are among them.
- `schema.py`, `structs/`: the columns of records; `tables.py`: the tables beside the topics.
- `offsets.py`, `splits.py`: the partitions and offsets of a read, and the pieces of logs that a task reads.
- `rows.py`: the rows of a task.
- `catalog.py`: the views that a query in SQL can name, each topic and each table.

A piece is a range of offsets of one partition that one task reads.
"""

"""Operations: plans of what a user asks for, and how they are applied.

A verb (`roll`, `retain`, `recover`, `compact` and so on) is a function that the command line and the library call. It
plans the changes of each partition, and applies the plans: see `call`. The packages are the groups of the help:
`look`, `cluster`, `check` (with the repair of damage), `change` (with undo) and `move`. `scans` makes Arrow of
partitions for Spark, DuckDB and exports.

Modules that the groups share:

- `steps`: next steps, as sentences with a command.
- `ownership`: whether the cluster gives a partition to the broker that it lies with.
- `selection`, `ranges`, `choices`, `option_values`: the choice of partitions and of records.
- `map_each`: where tasks run, in threads or processes.
"""

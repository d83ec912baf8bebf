"""Operations: plans of what a user asks for, and how they are applied.

A verb (`roll`, `retain`, `recover`, `compact` and so on) is a function that the command line and the library call. It
plans the changes of each partition, and applies the plans: see `session`. A verb is in a module here (`roll`,
`truncate`, `delete_records`, `purge`) or in a package (`append`, `compact`, `importing`, `recover`, `retain`, `undo`).
Packages for reading are `checks`, `doctor`, `listing`, `metadump`, `read`, `replay`, `serve`, `tables` and `verify`;
`scans` makes Arrow of partitions for Spark, DuckDB and exports. Other commands that read are modules of their names.

Modules that the verbs share:

- `plans`, `apply_changes`: plans, and their application through the journal.
- `steps`: next steps, as sentences with a command.
- `refusals`, `policy_rules`: when a partition must not be changed, such as a tiered partition.
- `ownership`: whether the cluster gives a partition to the broker that it lies with.
- `selection`, `ranges`: the choice of partitions and of records.
- `engine`: where tasks run.
"""

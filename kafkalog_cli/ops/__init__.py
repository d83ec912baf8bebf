"""Operations: plans of what a user asks for, and how they are applied.

A verb (`roll`, `retain`, `recover`, `compact` and so on) plans the changes of one partition and then applies the plan.
`session` runs a verb on several partitions. A verb is a module here (`roll`, `truncate`, `delete_records`, `purge`,
`undo`) or a package (`append`, `compact`, `importing`, `recover`, `retain`). Packages for reading are
`checks`, `doctor`, `find`, `listing`, `metadump`, `read`, `tables` and `verify`.

Modules that the verbs share:

- `plans`, `apply_changes`: plans, and their application through the journal.
- `refusals`, `policy_rules`: when a partition must not be changed, such as a tiered partition.
- `ownership`: whether the cluster gives a partition to the broker that it lies with.
- `selection`, `ranges`: the choice of partitions and of records.
- `engine`: where tasks run.
"""

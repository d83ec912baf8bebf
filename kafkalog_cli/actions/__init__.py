"""Actions: plans of what a user asks for, and how they are applied.

A verb (`roll`, `retain`, `recover`, `compact` and so on) plans the changes of one partition and then applies the plan.
`session` runs a verb on several partitions. A verb is a module here (`roll`, `truncate`, `delete_records`, `purge`,
`undo`) or a package (`append`, `compact`, `importing`, `recover`, `retain`). Packages for reading are `audit`, `dump`,
`export`, `listing`, `lookup`, `read`, `reports`, `tables` and `verify`.

Shared by the verbs: `change_plan` and `apply_changes` (plans, and their application through the journal), `refusals`
with `partition_facts` and `policy_rules` (when a partition must not be changed), `root_state` (checkpoints and clean
shutdown), `settings` (topic and broker settings), `selection` and `ranges` (which partitions and records), `engine` and
`in_order` (where tasks run).
"""

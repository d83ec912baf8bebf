"""Recovers partitions: repairs them, rebuilds only indexes, acts like a broker at start-up, or copies valid batches.

`verb` is the entry: it plans and applies one partition. `recover` chooses the rules (`RecoverMode`) and the settings,
plans the changes that a broker would make, and restores `partition.metadata` and the names of `-stray` directories.
`salvage` copies valid batches to a new directory.

`repair` plans a repair. `sidecar_state` says which other files to rebuild. `plan` has the plan's values, where a log's
damage starts and whether it may be cut, and which lines of the root checkpoints to correct.

A torn tail is damage at the end of the last segment, with no valid batch after it: only a torn tail is cut.
"""

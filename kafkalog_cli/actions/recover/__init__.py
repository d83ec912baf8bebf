"""Recovers partitions: repairs them, rebuilds only indexes, acts like a broker at start-up, or copies valid batches.

`verb` is the entry: it plans and applies one partition. `recover` chooses the rules (`RecoverMode`) and the settings.
`repair` plans a repair, and uses `torn_tail` (where a log's damage starts, and whether it may be cut), `sidecar_state`
(which other files to rebuild), `batch_marks` (facts about batches, noted during the check) and `checkpoint_lines`
(lines of the root checkpoints). `like_broker` plans the changes that a broker would make. `topic_identity` restores
`partition.metadata` and `-stray` directories. `salvage` copies valid batches to a new directory. `plan` has the plan's
values.

A torn tail is damage at the end of the last segment, with no valid batch after it: only a torn tail is cut.
"""

"""Checks sidecar files, entry by entry, against the log that they describe, for `dump-index` and `verify`.

A sidecar file is any file beside the logs: indexes, producer snapshots, checkpoints and metadata files. `root_reports`
selects the files, `index_reports` reports on a partition, `segment_reports` on one segment. `segment_walk` reads a
segment once, across damage, and passes each run of batches to the checks: `index_check`, `timeindex_check`,
`state_check` and `checkpoint_check`. `log_questions` collects the offsets that the checks need before the log is read.
`settled_reports` and `fresh_looks` repeat a check while a broker changes the files.

A `FileReport` has a `Verdict` per entry, and `Note`s on the whole file (`index_verdict`). An entry is tolerable if a
broker's look-ups are right in spite of it.
"""

"""Findings, and the checks of sidecar files against the log that they describe, for `dump-index` and `verify`.

A `Finding` (`diagnose`) is one problem: its kind, its place, what a broker does about it, and the next step. The table
of kinds is in `finding_kinds`.

A sidecar file is any file beside the logs: indexes, producer snapshots, checkpoints and metadata files. `root_reports`
selects the files, `index_reports` reports on a partition, `segment_reports` on one segment. `segment_walk` reads a
segment once, across damage, and passes each run of batches to the checks: `index_check`, `time_index_check`,
`index_files` and `state_check`. `log_questions` collects the offsets that the checks need before the log is read.
`fresh_looks` repeats a check while a broker changes the files.

A `FileReport` has a `Verdict` per entry, and notes on the whole file (`file_report`). An entry is tolerable if a
broker's look-ups are right in spite of it. A note names the kind of its finding. `dump-index` prints entries and notes;
`verify` prints the findings that `findings_of` makes of them.
"""

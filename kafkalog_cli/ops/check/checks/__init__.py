"""The check of a partition: one walk finds what is wrong with its log and with the files beside it.

A `Finding` (`diagnose`) is one problem: its kind, its place, what a broker does about it, and the next step. The table
of kinds is in `finding_kinds`.

`partition_check` reads each segment once, across damage (`segment_walk`). `log_check` checks the batches, with
`records`, `gaps`, `unusual_times`, `chain_findings` and `damaged_bytes`. A sidecar file is any file beside the logs:
indexes, producer snapshots, checkpoints and metadata files. Their entries are compared with the same batches:
`index_check`, `time_index_check`, `state_check`; `sidecar_files` lists and reads them. `log_questions` collects the
offsets that they need before the log is read, and `producers` follows producers and their transactions through it.
`root_reports` selects the files for `dump-index`. `recheck` repeats a check while a broker changes the files.

A `FileReport` has a `Verdict` per entry, and notes on the whole file (`file_report`). An entry is tolerable if a
broker's look-ups are right in spite of it. `dump-index` prints entries and notes, `verify` the findings in the log and
those that `findings_of` makes of reports, and `recover` plans on both.
"""

"""Changes of a log directory that survive a crash and can be undone.

A run is one command's work on one partition. Its directory `.kafkalog/<run id>/` keeps everything that `undo` needs.
Only this package and `disk` change a log directory.

- `changes`: the planned changes of files, in an order that is safe if a broker starts in between, and their check.
- `draft`: the files of a partition as they would be after the changes.
- `journal`, `journal_undo`: apply the changes of a plan, and undo them.
- `manifest`, `manifest_form`: the record of a run in JSON, and the state of the files that it is compared with.
- `checkpoint_lines`: a partition's lines in the offset checkpoints of the log directory.
- `clean_marker`: keeps `.kafka_cleanshutdown` away while runs change a log directory, and puts it back.
- `growing_run`: a run that appends to a partition. Its manifest lists each file before the file is touched.
- `new_partition`: a partition that is not visible until it is complete, and so needs no journal.
- `publishing`: directories of results, of which nothing is visible before all of it is on the disk.
- `removal`: the end of a run's directory.
"""

"""Changes of a log directory that survive a crash and can be undone.

A run is one command's work on one partition. Its directory `.kafkalog/<run id>/` keeps everything that `undo` needs.
Only this package and `disk` change a log directory.

- `changes`: the planned changes of files, in an order that is safe if a broker starts in between, their check, and the
  end of a run's directory.
- `draft`: the files of a partition as they would be after the changes.
- `manifest`: the record of a run in JSON, and the state of the files that it is compared with.
- `run`: a run from its first file to its end: the record, and the way back after an error. `runs` finds runs on the
  disk, and `removal` removes their files.
- `journal`, `journal_undo`: apply the changes of a plan, and undo them.
- `checkpoint_lines`: a partition's lines in the offset checkpoints of the log directory.
- `clean_marker`: keeps `.kafka_cleanshutdown` away while runs change a log directory, and puts it back.
- `growing_run`: a run that appends to a partition. Its manifest lists each file before the file is touched.
- `new_partition`: a partition that is not visible until it is complete, and so needs no journal.
- `new_partitions`, `output_directory`: the results of imports and exports, as partitions and as files, and the small
  file that commits a run of these.

An import or export writes its files under staged names: in kafkalog's own directory, or as partition directories with
a `-delete` name. It is committed when its record is written in one step. Then the staged files are moved to their
places. A run that was interrupted before the commit leaves nothing visible; the next run removes its files. A run that
was interrupted after the commit is completed by the next run, which moves the remaining files.
"""

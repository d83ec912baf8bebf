"""Changes of a log directory that survive a crash and can be undone.

A run is one command's work on one partition. Its directory `.kafkalog/<run id>/` keeps everything that `undo` needs.

- `changes`, `change_order`: the planned changes of files, in an order that is safe for a broker that starts in between.
- `journal`, `journal_check`, `journal_undo`: apply the changes of a plan, check them first, and undo them.
- `manifest`, `partition_state`: the record of a run in JSON, and the state of the files that it is compared with.
- `clean_marker`: keeps `.kafka_cleanshutdown` away while runs change a log directory, and puts it back.
- `lock`, `posix_lock`, `turns`: locks against brokers, other processes and other threads.
- `durable`, `removal`: writing and removing files so that the result survives a power cut.
"""

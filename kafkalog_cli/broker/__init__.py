"""Mechanisms of a Kafka broker (`storage.internals.log`), which work on a draft of a log's files.

Nothing here writes to the disk. A mechanism takes a `Draft` (package `change`). The difference between the draft and
the files is the list of changes that the journal makes. Tests compare each mechanism with the real class.

- `log_loader`: LogLoader. It loads a partition from a broker's start to the next clean stop. It removes leftovers,
  checks indexes, recovers the segments above the recovery point, and cuts the log after the last valid batch. It
  splits a segment if the 31 bits of an index do not hold its offsets.
- `loaded_segment`, `valid_rows`: LogSegment.recover; which batches count.
- `producer_state`, `producer_snapshots`, `producer_table`: ProducerStateManager and its snapshots, as columns.
- `leader_epochs`: LeaderEpochFileCache.
- `open_log`: the log between a start and a stop: how it is rolled and truncated; `retention` works on it (UnifiedLog).
- `appended_log`: UnifiedLog.append: rolls, writes, indexes, and updates producers. It writes through a `Growth`, of
  which `change.growing_run` has two: for a log that is there, and for a new partition.
- `segment_writer`: the entries of a segment's indexes.
- `cleaning`: LogCleaner.
- `load_error`: the exceptions with which loading ends; `LoadFailed` names the Java exception that a broker throws.

An odd batch is a batch at which kafkalog's scan ends, and of which a broker reads only the header, e.g. with a
negative magic.
"""

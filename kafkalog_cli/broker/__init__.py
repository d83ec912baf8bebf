"""A log as a broker loads, rolls, truncates and retains it (Kafka's storage.internals.log), on a draft of its files.

`draft` holds the files of a partition as they would be after the planned changes; nothing here writes to the disk.
`log_loader` loads a partition as a broker does at start-up, with recovery, up to the broker's next clean stop.
It uses `loaded_segment`, `segment_split`, `valid_rows`, `producer_snapshots`, `producer_state` and `leader_epochs`.
`open_log` is the log between start and stop; `rolling` and `truncation` work on it.
`retention` decides which segments a broker deletes, without reading files.
`load_error` has the exceptions with which loading ends; `LoadFailed` names the Java exception that a broker throws.

Recovery checks the batches that may not have been flushed, cuts the log after the last valid batch, and rebuilds
the indexes. An odd batch is a batch that kafkalog's scan rejects and a broker accepts, e.g. with a negative magic.
"""

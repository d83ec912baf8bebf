"""One partition's log as it lies on the disk, opened for reading. Nothing here changes a file.

- `partition`: what is known about a partition directory, and the partition directories of a log directory.
- `log_dir`: the root of a log directory: how its broker stopped, and its four offset checkpoints.
- `reading`: from the bytes of a segment to columns of batches and of records.
- `log_end`, `segment_search`: one segment by its indexes: its end, an offset, a time. An index may be damaged or stale,
  so an entry is used only if the log confirms it. The exception are functions that follow a broker.
- `open_transactions`, `transaction_ends`: when transactions begin and end, open transactions, ends read ahead.
- `settings`: the settings of topics and brokers, and their sources, such as the metadata log.
"""

"""The files of a log directory and of its partitions, and the broker's mechanisms that work on them.

Every access to log data goes through `fs` (reading) and `fs_changes` (writing). Bytes are decoded by the package
`format`, which knows no files.

- `names`, `logdir`, `partition`: the names of files and directories, and listings of a log directory and a partition.
- `checkpoints`: the four offset checkpoints at the root of a log directory.
- `open_transactions`, `transaction_ends`: transactions without an end, and how transactions end.
- `held_directories`, `page_cache`, `metered_fs`, `io_rate`: safe paths, caution beside a broker, progress and limits.
- `reading`, `segments`: from the bytes of a segment to columns, and one segment by its indexes.
- `log`, `appending`, `cleaning`: a log as a broker loads, rolls, retains, extends and compacts it.
- `changing`: locks, journal, manifest and undo.
- `publishing`: directories of results. `settings`: the settings of topics and brokers.
"""

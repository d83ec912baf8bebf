"""The disk: the one door to log directories, and what every change of a directory stands on.

Every access to log data goes through `fs` (reading) and `fs_changes` (writing); so crash and fault tests, which put
another disk in their place, reach all of them. Bytes are decoded by the package `format`, which knows no files.

- `names`, `directory_contents`: the names of files and directories, and what they show of a directory.
- `held_directories`, `followed_links`, `named_places`: paths that another user cannot redirect.
- `lock`, `posix_lock`: locks against brokers, other processes and other threads.
- `durable`: writing and removing files so that the result survives a power cut.
- `live_logs`: whether a broker runs, and which log is its active segment.
- `page_cache`, `metered_fs`: caution beside a broker, progress and limits.
- `cache`: the directory for the archive of Spark's classes.
- `pair_spool`: pairs of bytes that do not fit in memory.
"""

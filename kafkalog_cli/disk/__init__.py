"""The disk: the one door to log directories, and what every change of a directory stands on.

Every access to log data goes through `fs`; so crash and fault tests, which put another disk in its place, reach all of
them. Bytes are decoded by the package `format`, which knows no files.

- `names`, `directory_contents`: the names of files and directories, and what they show of a directory.
- `directories`, `named_places`: paths that another user cannot redirect.
- `lock`, `posix_lock`: locks against brokers, other processes and other threads.
- `ownership`: gives new files to the user of a log directory.
- `durable`: writing and removing files so that the result survives a power cut.
- `live_logs`: whether a broker runs, and which logs are its closed segments.
- `metered_fs`: progress and limits.
- `cache`: the directory for the archive of Spark's classes.
- `temporary`, `spooled_pairs`: bytes, and pairs of numbers, that do not fit in memory.
"""

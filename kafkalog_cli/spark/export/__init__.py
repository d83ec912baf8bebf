"""Export as a job of Spark: tasks write files from the core's columns, the driver commits them.

- `task.py`: the work of a task: it reads pieces of logs and writes their records to files in a staging directory.
- `job.py`: the whole export. It plans which logs are exported, from which to which offset, and how logs changed since
  the last export. Then come the tasks, and the commit of the files together with the state.

The state (`--state`) holds, per log, how far it was exported. A gap is a range of records that were deleted before they
were exported.
"""

"""Import as a job of Spark: tasks build partitions, the driver publishes all of them at once.

- `job.py`: the whole import: plan, tasks, and the commit. Partitions are built by tasks, or by several processes on the
  driver's machine.
- `task.py`: the work of a task: sort the records of a file into parts, or build one partition.
- `writer.py`: the import as a Spark data sink (`df.write`).

A part is a file of records of one partition, sorted out of an input file. A job builds one partition from its input.
Partitions are built in a staging directory and become visible with the commit.
"""

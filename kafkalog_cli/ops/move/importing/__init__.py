"""Import records from files as new partitions of a log directory.

- `job.py`: the whole import: plan, tasks, and the commit. Tasks run in processes of this machine, or elsewhere, such as
  in Spark. A task sorts the records of a file by partition (`scattering.py`), or builds one partition (`building.py`).
- `sources.py`: the request, and reading the files.
- `planning.py`: which partitions to make, and reading them back in the end.

A sorted file has records of one partition, out of one input file. A job builds one partition from its input.
Partitions are built in a staging directory and become visible with the commit.
"""

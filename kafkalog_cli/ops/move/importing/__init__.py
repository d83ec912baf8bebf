"""Import records from files as new partitions of a log directory.

- `job.py`: the whole import: plan, tasks, and the commit. Tasks run in processes of this machine, or elsewhere, such as
  in Spark. A task sorts the records of a file into parts (`scattering.py`), or builds one partition (`building.py`).
- `sources.py`: the request, and reading the files.
- `planning.py`: which partitions to make, and reading them back in the end.

A part is a file of records of one partition, sorted out of an input file. A job builds one partition from its input.
Partitions are built in a staging directory and become visible with the commit.
"""

"""Undoing a run: `plan` for one partition, `verb` for all partitions that have it.

`last_run` says whether a power cut or a kill interrupted the last run of a partition. Such a run is undone before the
next run reads the partition.
"""

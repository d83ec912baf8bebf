"""Appending batches to a log, and creating new partition directories.

`appended_log` does what a broker does with appended batches: it rolls, writes, indexes and updates producers.
Its files are written through a `Growth`, of which there are two. `growing_run` appends to an existing partition:
its manifest lists each file before the file is touched, so the run can be undone. `unseen_growth` writes a partition
that is not visible until it is complete, and so needs no journal.
`new_partition` creates an empty partition directory, and removes it after a failure or an undo.
"""

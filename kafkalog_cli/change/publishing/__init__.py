"""Publishing the results of a run: nothing of a run is visible before all of it is on the disk.

A run writes its files under staged names: in kafkalog's own directory, or as partition directories with a `-delete`
name. It is committed when its record is written in one step. Then the staged files are moved to their places.
A run that was interrupted before the commit leaves nothing visible; the next run removes its files. A run that was
interrupted after the commit is completed by the next run, which moves the remaining files.
`output_directory` publishes files (exports), `new_partitions` partitions of a log directory (imports), and
`import_leftovers` finds the partitions of interrupted imports. `record` is the record of a run, `staged_file` a file
that is being written.
"""

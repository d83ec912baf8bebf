"""Append records to a partition: read the input, gather records into batches, plan the append and apply it.

`verb.py` is the command, and `append.py` plans and applies an append. `records.py` has the one form of records on their
way into a log, `NewRecords`: their bytes and a matrix. `reading.py` parses a line, `lines.py` and `arrow.py` read many
records. `checks.py` refuses what a broker would refuse, `batching.py` makes batches. `partitioning.py` sorts records by
partition, `inputs.py` has files and standard input, and `making.py` makes a new partition. Import uses them, too.
"""

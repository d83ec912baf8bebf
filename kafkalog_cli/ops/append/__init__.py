"""Append records to a partition: read the input, gather records into batches, plan the append and apply it.

`verb.py` is the command, and `append.py` plans and applies an append. `inputs.py`, `reading.py`, `columns.py` and
`arrow.py` read records. `batching.py` gathers them into batches and encodes the batches. `checks.py`
refuses what a broker would refuse. `partitioning.py` sorts records by partition. `making.py` makes a new partition.

Records come one by one (`NewRecord`) or many as arrays (`RecordRun`), and both become columns where they are gathered.
A block is a number of whole batches that are encoded together.
"""

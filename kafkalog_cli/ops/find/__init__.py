"""Find the records that meet some conditions (`kafkalog find`).

`conditions.py` is what to find: the conditions of a record with their paths into JSON values, and the rows of a block
that meet them. `partition_search.py` searches partitions in parallel, with the records around each match from
`context.py`.
"""

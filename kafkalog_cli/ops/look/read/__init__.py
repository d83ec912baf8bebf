"""Read the records of partitions as a consumer gets them (`kafkalog read`), or those that meet conditions (`find`).

`request.py` is what to read, and `log_read.py` reads a log. `visible.py` decides which batches a consumer gets, and
which of them read_committed hides. `events.py` reads a log to its end, whatever is damaged. `search.py` searches
partitions in parallel. `conditions.py` has the conditions of a record, with their paths into JSON values, and
`context.py` chooses the records around each match.
"""

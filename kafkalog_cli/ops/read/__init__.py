"""Read the records of a partition as a consumer gets them (`kafkalog read`).

`request.py` is what to read, and `log_read.py` reads it. `visible.py` decides which batches a consumer gets, and
which of them read_committed hides.
"""

"""Find the records that meet some conditions (`kafkalog find`).

`conditions.py` has the conditions of a record, and finds its rows in a block. `json_path.py` is a path into a JSON
value. `request.py` is what to find. `partition_search.py` searches one partition, with the records around each match
from `context.py`. `search.py` searches several partitions in parallel, and keeps their order.
"""

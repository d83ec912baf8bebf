"""`cluster`: the state of a cluster from `__cluster_metadata` and its snapshots, at any point, and its differences.

`entries.py` has the state as entries by part and name. `describe.py` reads it from log directories. It also finds
partitions on disk that the cluster does not give to their broker. Without a metadata log, it describes only the disk.
"""

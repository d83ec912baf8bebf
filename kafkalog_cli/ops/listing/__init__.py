"""The facts that `ls` shows, from names, sizes, small files and the ends of segments.

`paths.py` lists what a path stands for. `root.py`, `listing.py` and `segments.py` describe log directories, partitions
and segments. `reads.py` reads small files and collects their faults.
"""

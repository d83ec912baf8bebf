"""The facts that `ls` shows, from names, sizes, small files and the ends of segments.

`paths.py` lists what a path stands for. `root.py` describes a log directory and its small files, `listing.py` its
partitions and their segments. `usage.py` adds sizes, and `freeable.py` what could be freed.
"""

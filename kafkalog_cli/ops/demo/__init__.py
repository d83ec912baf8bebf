"""A small log directory to try the commands on: what a web shop's broker leaves when it is killed.

`contents` has the records, `making` writes them with the append of this program and damages two partitions.
"""

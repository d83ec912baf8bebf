"""The files of a partition and of a log directory, and the broker's mechanisms on them."""

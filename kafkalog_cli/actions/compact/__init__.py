"""Compacts partitions as a broker's log cleaner does."""

"""Recovering partitions: as a broker does at its start, by repair, or by copying what is valid."""

"""Appending to a log: the run that lets files grow, and what a broker does with batches that come."""

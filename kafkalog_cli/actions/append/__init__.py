"""Appending records to a partition: what is read, how it becomes batches, and the plan and its apply."""

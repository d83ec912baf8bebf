"""Compacts partitions as a broker's log cleaner does, and erases all records of given keys.

`verb` is the entry: it plans and applies one partition, and runs retention afterwards if cleanup.policy has delete too.

`plan` decides whether a log is dirty enough to be cleaned. `cleaning` cleans the log into new files.
`erasing` proves that keys were erased.

Dirty, cleanable and tombstone have the meaning that they have in Kafka's log cleaner. Marking finds the records to
keep, before new segments are written.
"""

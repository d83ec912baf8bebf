"""Kafka's log cleaner, offline: finds the dirty part of a log, marks removable records, and writes new segments.

`choosing` decides which part of a log may be cleaned, how urgently, and which segments become one.
`marking` reads the log and fills a key table (`key_table`) and the `marks` of all records.
`cleaner` reads the log again and writes the records that stay, with `output` for the new segments and their indexes.
`log` reads the closed segments, checks them and follows aborted transactions; damage ends the cleaning.
`explaining` reports for one key why each record stays or is removed.

The dirty part of a log begins at the first dirty offset: no record from there on has been cleaned.
A mark is a byte per record: whether the record is removed, and whether it is a tombstone.
A tombstone (a record without a value) is removed after the delete horizon of its batch.
"""

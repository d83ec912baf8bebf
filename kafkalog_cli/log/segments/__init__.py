"""Work with one segment through its indexes.

`log_end` finds the offset after a segment's last record, its largest timestamp, and the last entries of an index.
`segment_search` finds a batch by offset or time.

An index may be damaged or stale, so an index entry is used only if the log confirms it. The exception are functions
that follow a broker, which may not check the entry.
"""

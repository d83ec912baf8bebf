"""Retention: removes old segments as a broker does, explains each decision, and frees room on a full disk.

`retain` plans and applies retention for one partition. `plan` has the plan's values, and says why each segment is kept
or removed, and when it becomes due. `free` is `retain --free-bytes`: it removes the oldest segments of all partitions
one by one, without copies, until enough room is free. It records the run afterwards.

The fate of a segment is kept (`Stay`) or removed (`RetentionPass`), with the setting that decides.
"""

"""Recovers partitions: repairs them, rebuilds only indexes, acts like a broker at start-up, or copies valid batches.

`recover` is the verb. `repair` and `like_broker` plan it, both by a broker's mechanisms on a draft of
the files: `like_broker` takes over all of the loader's changes, `repair` only those that the log or a reader needs.
`plan` declares the plan, which is the result. `salvage` is the verb that copies valid batches to a new directory,
from the logs that `salvage_sources` chooses.
"""

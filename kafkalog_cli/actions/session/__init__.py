"""One way to carry out a verb on partitions: the command line, the library and tasks of Spark all use it.

A `Verb` is a value: a name, and a function of one partition in work (`Work`) and a request. `Session` chooses the
partitions, takes the locks, calls the function for several partitions at a time, keeps the limits of time and load,
and tells an `Observer` about each result in the order of the partitions. A session prints nothing and asks nobody.

    session = Session(ROLL, Context(), SessionOptions(dry_run=True), observer)
    partitions = session.writable_partitions(["/var/kafka"])
    summary = session.run(session.request(RollRequest, partitions), partitions)

The parts: `options` (what a caller may choose), `work` (one partition: its disk, its lock, refusals, changes),
`session` (all of them), `observer` (who hears of it), `interruptions` (signals).
"""

"""Runs a verb on partitions, for the command line, the library and Spark tasks alike.

A verb is a function that takes one partition (`Work`), and a `Verb`, its name and how it locks. `Session` chooses the
partitions, takes the locks and calls the function for several partitions at a time. It keeps the limits of time and
load, and reports each result to an `Observer` in the order of the partitions. A session prints nothing and asks the
user nothing.

    session = Session(ROLL, Context(), SessionOptions(dry_run=True), observer)
    partitions = session.writable_partitions(["/var/kafka"])
    summary = session.run(roll, partitions)

The modules are:

- `options`: the choices of a caller.
- `verb`: a verb, and the summary of a session.
- `work`: one partition with its disk, its lock, refusals, changes, and its progress.
- `interruptions`: signals as requests to stop at the next safe point.
- `session`: all partitions.
- `observer`: receives results and notes, and the warnings of readers about locks.
"""

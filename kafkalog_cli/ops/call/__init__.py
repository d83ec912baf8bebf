"""One call of a verb, for the command line and the library alike.

A verb is a function that takes paths, keyword arguments, and the options that all verbs take (`VerbOptions`). It makes
a `Call`, which chooses the partitions, and changes each with `change_each`: under locks, several at a time, within the
limits of time and load. `read_each` does tasks that only read. Results and notes go to an `Observer`, in the order of
the partitions.

    def roll(paths, *, force=False, **options):
        def roll_one(target): ...  # plans the change of one partition (`Target`), checks refusals, applies the plan
        call = Call("roll", paths, options)
        return call.change_each(call.writable_partitions(), roll_one)

The modules are:

- `options`: the options of all verbs.
- `call`: one call, and its outcome, `Run`.
- `host_plan`: what a verb that reads has to do on another host, planned there.
- `target`: one partition with its disk, its lock, refusals, changes, and its progress.
- `interruptions`: signals as requests to stop at the next safe point.
- `observer`: receives results and notes, and the warnings of readers about locks.
"""

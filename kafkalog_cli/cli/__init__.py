"""The command line: one module per subcommand, imported only when that subcommand is called.

- `app.py`: the `kafkalog` command and its exit codes; COMMANDS names the module of each subcommand.
- `COMMAND.py`: a subcommand's options and help text (the docstring of its function); `COMMAND_run.py`: one run of it.
- `options.py`, `spark_options.py`, `groups.py`: options that subcommands share.
- `verbs.py`: runs a verb (a subcommand that changes logs) in a session, and prints its results.
- `environment.py`: the disk, streams and clock of a command, which tests replace; `terminal.py`: questions to the user.
- `conversions.py`: converts option values without Pydantic, for a fast start.

A run prints results on stdout and messages on stderr, and returns the exit code. Heavy modules are imported in the
functions that need them: a small dump must start at once.
"""

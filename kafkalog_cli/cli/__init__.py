"""The command line: one module per subcommand, imported only when that subcommand is called.

- `app.py`: the `kafkalog` command and its exit codes. `commands.py`: the module of each subcommand.
- `COMMAND.py`: a subcommand's options and help text (the docstring of its function); `COMMAND_run.py`: one run of it.
- `options.py`, `groups.py`: options that subcommands share.
- `verbs.py`: runs a verb (a subcommand that changes logs) in a session, and prints its results.
- `command_output.py`: prints the results and messages of a command without a session.
- `environment.py`: the disk, streams, clock and terminal of a command, which tests replace.
- `declared.py`: declares commands and options. `plain_parser.py` parses command lines that are clearly right, for a
  fast start; `typer_parser.py` makes typer's parser of the same declarations for all others.

A run prints results on stdout and messages on stderr, and returns the exit code. Heavy modules are imported in the
functions that need them: a small dump must start at once.
"""

"""The command line: one module per subcommand, imported only when that subcommand is called.

- `app.py`: runs a command line; errors become messages and exit codes. `process.py`: what a process needs around that.
- `commands.py`: the `kafkalog` command, and how a module becomes a subcommand of typer, with variables for its options.
- `COMMAND.py`: a subcommand's options, its help (docstring, EXAMPLES, EXIT_CODES), one run of it, and its text.
  `printed_records.py` is a part of `read` and `find`.
- `run.py`: one call of a command: what it reads, its output, its progress, its exit code.
- `options.py`: options that subcommands share, and groups of them. `completion.py`: the words that a shell completes.
- `command_help.py`: the text of the help. `exit_codes.py`: the exit codes that it lists.
- `engine.py`: whether threads and processes do the work, or Spark. `each_host.py`: Spark on the disks of all hosts.
- `reports.py`: prints what a verb of `ops` reports. `changes.py`: also asks, for verbs that change logs.
- `environment.py`: the disk, streams, clock and terminal of a command, which tests replace.

A run prints results on stdout and messages on stderr, and returns the exit code. Heavy modules are imported in the
functions that need them: a small dump must start at once.
"""

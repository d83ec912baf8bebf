"""The surroundings of commands that read for long: their reads are shown as progress."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from kafkalog_cli.cli.environment import Environment


@contextmanager
def shown_reading(environment: Environment, *, prints_while_reading: bool = False) -> Iterator[Environment]:
    """Yield an environment whose reads are shown as progress on stderr.

    `prints_while_reading`: results on a terminal, and objects of JSON output, show themselves where the command is.
    """
    is_shown = environment.wants_json or environment.stderr.isatty()
    if not is_shown or (prints_while_reading and (environment.wants_json or environment.stdout.isatty())):
        yield environment
        return
    from kafkalog_cli.disk.metered_fs import MeteredFilesystem
    from kafkalog_cli.output.progress import Progress, beside

    with Progress(
        environment.stderr, environment.argv[0], as_json=environment.wants_json, clock=environment.clock
    ) as progress:
        fs = MeteredFilesystem(environment.fs, lambda path, size_bytes: progress.advance(size_bytes, path))
        out, err = beside(progress, environment.stdout), beside(progress, environment.stderr)
        yield replace(environment, fs=fs, stdout=out, stderr=err)


shown_reading_into_files = partial(shown_reading, prints_while_reading=True)
"""The surroundings of a command that prints while it reads."""
